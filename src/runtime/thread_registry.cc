// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_registry.h"

namespace llamalloc {

constinit ThreadHeap empty_heap{};
constinit thread_local ThreadHeap* current_heap __attribute__((tls_model("initial-exec"))) =
    &empty_heap;

ThreadHeap* ThreadRegistry::adopt(MetadataArena& arena) {
  LockGuard guard(lock_);
  ThreadHeap* heap = all_;
  while (heap != nullptr && heap->in_use) heap = heap->next;
  if (heap == nullptr) {
    heap = arena.make<ThreadHeap>();
    if (heap == nullptr) return nullptr;
    heap->initialise();
    heap->next = all_;
    all_ = heap;
  }
  heap->in_use = true;
  in_use_.fetch_add(1, std::memory_order_relaxed);
  return heap;
}

void ThreadRegistry::retire(ThreadHeap* heap, Heap& owner) {
  heap->flush(owner);
  LockGuard guard(lock_);
  heap->in_use = false;
  in_use_.fetch_sub(1, std::memory_order_relaxed);
}

namespace {

// One call at a time: a thread that sleeps for long must not have them add up until they overflow.
void call_in(ThreadHeap* heap) {
  if (heap->countdown.load(std::memory_order_relaxed) >= 0)
    heap->countdown.fetch_sub(kCallIn, std::memory_order_relaxed);
}

}  // namespace

void ThreadRegistry::request_housekeeping() {
  LockGuard guard(lock_);
  for (ThreadHeap* heap = all_; heap != nullptr; heap = heap->next) {
    if (!heap->in_use) continue;
    heap->housekeeping_due.store(true, std::memory_order_relaxed);
    call_in(heap);
  }
}

void ThreadRegistry::wake_all() {
  LockGuard guard(lock_);
  for (ThreadHeap* heap = all_; heap != nullptr; heap = heap->next)
    if (heap->in_use) call_in(heap);
}

void ThreadRegistry::forget_others(ThreadHeap* mine) {
  lock_.reset();
  all_ = mine;
  if (mine != nullptr) mine->next = nullptr;
  in_use_.store(mine != nullptr ? 1 : 0, std::memory_order_relaxed);
}

}  // namespace llamalloc
