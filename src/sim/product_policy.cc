// SPDX-License-Identifier: Apache-2.0
#include "sim/product_policy.h"

namespace llamalloc::sim {
namespace {

// As in runtime/resize.cc.
bool fits_in_place(size_t have, size_t want) {
  return want <= have && (want >= have / 2 || have <= 64);
}

// The slot size that serves an aligned request (runtime/resize.cc); 0: no slot does.
uint64_t slot_size_for(uint64_t size, uint64_t alignment) {
  if (alignment <= 16) return size <= kSmallMax ? size : 0;
  if (alignment > kBlockSize || size > kSmallMax) return 0;
  int c = size_class_of(size < alignment ? alignment : size);
  while (c < kSizeClasses && kSizeClassRows[c].size % alignment != 0) ++c;
  return c < kSizeClasses ? kSizeClassRows[c].size : 0;
}

}  // namespace

std::unique_ptr<ProductPolicy> ProductPolicy::make() {
  std::unique_ptr<ProductPolicy> made(new ProductPolicy);
  return made->pages_.open() ? std::move(made) : nullptr;
}

uint64_t ProductPolicy::allocate(const Request& request) {
  pages_.time = request.now;
  const char* p = place(request);
  return p ? pages_.offset_of(p) : kNoAddress;
}

// As ThreadRegistry::adopt.
ProductPolicy::Thread& ProductPolicy::thread_of(uint32_t number) {
  if (number >= threads_.size()) threads_.resize(number + 1u);
  Thread*& thread = threads_[number];
  if (thread == nullptr) {
    thread = ended_;
    if (thread != nullptr) {
      ended_ = thread->next;
    } else {
      thread = arena_.make_array<Thread>(1);
      CHECK(thread != nullptr);
      thread->magazines.initialise();
    }
    ++running_;
  }
  return *thread;
}

// As ThreadRegistry::retire.
void ProductPolicy::end_thread(uint32_t number) {
  if (number >= threads_.size() || threads_[number] == nullptr) return;
  Thread* thread = threads_[number];
  CHECK(thread->magazines.flush(heap_) == nullptr);
  thread->magazines.reset();
  thread->called_in = false;
  thread->next = ended_;
  ended_ = thread;
  threads_[number] = nullptr;
  --running_;
}

char* ProductPolicy::take_slot(uint32_t number, int bin) {
  Thread& thread = thread_of(number);
  if (thread.called_in) {
    CHECK(thread.magazines.flush(heap_) == nullptr);
    thread.magazines.start_over();
    thread.called_in = false;
  }
  Magazine& magazine = thread.magazines.bins[bin];
  void* slot =
      magazine.is_empty() ? thread.magazines.refill(heap_, arena_, bin, running_) : magazine.pop();
  return static_cast<char*>(slot);
}

char* ProductPolicy::place(const Request& request) {
  const uint64_t alignment = request.alignment();
  const uint64_t slot = slot_size_for(request.size, alignment);
  const PageGroup group = group_of(request.lifetime);
  if (slot != 0) {
    const int size_class = size_class_of(slot);
    char* p = take_slot(request.thread, bin_of(group, size_class, false));
    if (p) rounding_ += kSizeClassRows[size_class].size - request.size;
    return p;
  }
  Span* span = place_large(request, alignment);
  if (span == nullptr) return nullptr;
  rounding_ += taken_for(*span) - request.size;
  return span->base;
}

// As allocate_large() and allocate_aligned().
Span* ProductPolicy::place_large(const Request& request, uint64_t alignment) {
  if (alignment > kBlockSize)
    return heap_.allocate(request.size, alignment, PageGroup::unknown, false);
  const PageGroup group = group_of(request.lifetime);
  Span* span = nullptr;
  if (request.size <= kRunMax)
    span = thread_of(request.thread).magazines.take_run(heap_, blocks_of_run(request.size), group);
  return span != nullptr ? span : heap_.allocate(request.size, 1, group, false);
}

void ProductPolicy::free(uint64_t address, uint64_t bytes, uint32_t thread, Nanos now) {
  pages_.time = now;
  char* p = pages_.at(address);
  Span* span = heap_.find(p);
  CHECK(span != nullptr);
  rounding_ -= taken_for(*span) - bytes;
  Magazines& magazines = thread_of(thread).magazines;
  if (span->kind != SpanKind::slots) {
    if (!magazines.keep_run(heap_, span, running_)) heap_.deallocate(span);
    return;
  }
  Magazine* magazine = &magazines.bins[span->bin];
  if (!magazine->is_full())
    magazine->push(p);
  else
    CHECK(magazines.spill(heap_, arena_, span->bin, p, running_) == nullptr);
}

// As reallocate().
uint64_t ProductPolicy::move(uint64_t address, uint64_t bytes, uint64_t have,
                             const Request& request) {
  if (!grows_as_run(have, request.size)) return Policy::resize(address, bytes, request);
  Span* span = heap_.allocate_growing(request.size, group_of(request.lifetime));
  if (span == nullptr) return kNoAddress;
  rounding_ += taken_for(*span) - request.size;
  free(address, bytes, request.thread, request.now);
  return pages_.offset_of(span->base);
}

uint64_t ProductPolicy::resize(uint64_t address, uint64_t bytes, const Request& request) {
  pages_.time = request.now;
  Span* span = heap_.find(pages_.at(address));
  CHECK(span != nullptr);
  const uint64_t before = taken_for(*span);
  if (span->kind == SpanKind::slots) {
    if (!fits_in_place(span->object_size(), request.size))
      return move(address, bytes, before, request);
    rounding_ += bytes - request.size;
    return address;
  }
  void* resized = heap_.resize(span, request.size);
  if (resized == nullptr) return move(address, bytes, before, request);
  rounding_ += taken_for(*span) - request.size;
  rounding_ -= before - bytes;
  return pages_.offset_of(resized);
}

void ProductPolicy::advance(Nanos now) {
  pages_.time = now;
  if (now - last_house_ >= kHousekeeping) {
    last_house_ = now;
    for (Thread* thread : threads_)
      if (thread) thread->called_in = true;
    CHECK(heap_.drain_depots() == nullptr);
    promotions_ += heap_.pages().promote_expired(now);
    heap_.pages().break_idle(now - kBreakDelay);
  }
  heap_.pages().collapse_first_pages();
  heap_.release(now - kReleaseDelay, 0);
  heap_.release_direct(now - kDirectDelay);
}

Losses ProductPolicy::losses() {
  Losses losses;
  for (int g = 0; g < kPageGroups; ++g) {
    const GroupCounts counts = heap_.count(static_cast<PageGroup>(g));
    losses.free_slots += counts.free_slots;
    losses.free_blocks += counts.free_blocks;
  }
  losses.rounding = rounding_;
  losses.empty_pages = heap_.pages().counts().empty_backed * kHugePageSize +
                       DirectSpace::backed(heap_.cached_direct_bytes());
  losses.thread_caches = heap_.depot_bytes();
  for (const Thread* thread : threads_)
    if (thread != nullptr) losses.thread_caches += thread->magazines.cached_bytes();
  // Last: what was looked at counts as resident.
  losses.metadata = arena_.resident_bytes() + heap_.map_bytes();
  return losses;
}

}  // namespace llamalloc::sim
