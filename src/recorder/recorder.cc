// SPDX-License-Identifier: Apache-2.0
#include "recorder/recorder.h"

#include <bit>

#include "base/errno_keeper.h"
#include "os/unwind.h"
#include "recorder/process_life.h"
#include "recorder/recorder_state.h"

namespace llamalloc {

constinit thread_local bool is_inside = false;

namespace {

// The calling thread's log while it writes one event; null: nothing is to be recorded.
class Entry {
 public:
  Entry() : log_(current_log) {
    if (log_ == nullptr) [[unlikely]]
      log_ = recorder.attach();
    if (log_ != nullptr && !enter()) log_ = nullptr;
  }
  ~Entry() NO_THREAD_SAFETY_ANALYSIS {
    if (log_ == nullptr) return;
    // Pairs with the load in Recorder::wait_until_whole(): it sees the whole event.
    log_->busy.store(ThreadLog::kIdle, std::memory_order_release);
    if (log_ == recorder.late_log) recorder.late_lock.unlock();
  }
  explicit operator bool() const { return log_ != nullptr; }
  ThreadLog& log() const { return *log_; }

  // The time of the event, in a chunk that has room for it; false: the recording is over.
  bool start(uint64_t* time) const {
    log_->busy.store(ThreadLog::kChanging, std::memory_order_relaxed);
    // Stays before the changes: a signal handler in this thread sees it first.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (log_->chunk.is_full() && !recorder.flush(*log_)) [[unlikely]]
      return false;
    *time = recorder.now();
    if (log_->chunk.is_empty()) [[unlikely]]
      log_->chunk.begin(log_->thread, *time);
    if (log_ == recorder.late_log) log_->chunk.change_thread(thread_number());
    return true;
  }

 private:
  // It holds late_lock from here to its end, if it writes into the late log.
  bool enter() NO_THREAD_SAFETY_ANALYSIS {
    if (log_ == recorder.late_log) recorder.late_lock.lock();
    const bool is_inside_already = log_->busy.load(std::memory_order_relaxed) != ThreadLog::kIdle;
    if (!is_inside_already) {
      log_->busy.store(ThreadLog::kInside, std::memory_order_relaxed);
      // Stays before the load below on this processor; Recorder::close() sees to the others.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (!recorder.is_over()) [[likely]]
        return true;
      log_->busy.store(ThreadLog::kIdle, std::memory_order_relaxed);
    }
    if (log_ == recorder.late_log) recorder.late_lock.unlock();
    return false;
  }

  ThreadLog* log_;
};

uint32_t stack_of(ThreadLog& log, uintptr_t return_address) {
  StackTrace trace;
  unwind_from_here(return_address, &trace);
  const uint64_t hash = trace.hash() | 1;  // an empty entry's is 0
  if (const uint32_t known = log.cache.find(hash)) return known;
  const uint32_t stack = recorder.tables.intern(trace);
  log.cache.put(hash, stack);
  return stack;
}

}  // namespace

void record_allocate(const void* p, size_t size, size_t alignment, uintptr_t return_address) {
  if (recorder.is_over()) return;
  const ErrnoKeeper keeper;
  const Entry entry;
  if (!entry) return;
  const uint32_t stack = stack_of(entry.log(), return_address);
  const auto log2 = static_cast<uint8_t>(std::countr_zero(alignment | size_t{1} << 63));
  if (uint64_t time; entry.start(&time))
    entry.log().chunk.allocate(time, reinterpret_cast<uintptr_t>(p), size, stack, log2);
}

void record_free(const void* p) {
  if (recorder.is_over()) return;
  const ErrnoKeeper keeper;
  const Entry entry;
  if (uint64_t time; entry && entry.start(&time))
    entry.log().chunk.free(time, reinterpret_cast<uintptr_t>(p));
}

void record_resize_begin(const void* old) {
  if (recorder.is_over()) return;
  const ErrnoKeeper keeper;
  const Entry entry;
  if (uint64_t time; entry && entry.start(&time))
    entry.log().chunk.resize_begin(time, reinterpret_cast<uintptr_t>(old));
}

void record_resize_end(const void* now, size_t size, uintptr_t return_address) {
  if (recorder.is_over()) return;
  const ErrnoKeeper keeper;
  const Entry entry;
  if (!entry) return;
  const uint32_t stack = stack_of(entry.log(), return_address);
  if (uint64_t time; entry.start(&time))
    entry.log().chunk.resize_end(time, reinterpret_cast<uintptr_t>(now), size, stack);
}

void record_resize_failed(const void* old) {
  if (recorder.is_over()) return;
  const ErrnoKeeper keeper;
  const Entry entry;
  if (uint64_t time; entry && entry.start(&time))
    entry.log().chunk.resize_failed(time, reinterpret_cast<uintptr_t>(old));
}

void end_recording() {
  if (recorder.is_of_this_process()) recorder.close();
}

}  // namespace llamalloc
