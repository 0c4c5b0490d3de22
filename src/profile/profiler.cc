// SPDX-License-Identifier: Apache-2.0
#include "profile/profiler.h"

#include "base/size_bucket.h"
#include "profile/pprof_writer.h"
#include "profile/sampler.h"
#include "profile/scratch_pages.h"
#include "profile/snapshot.h"

namespace llamalloc {
namespace {

uintptr_t address_of(const void* p) {
  return reinterpret_cast<uintptr_t>(p);
}

}  // namespace

void Profiler::start(size_t interval, Nanos now) {
  int64_t never = kNever;
  began_.compare_exchange_strong(never, now.n, std::memory_order_relaxed);
  if (!on()) complete_since_.store(now.n, std::memory_order_relaxed);
  interval_.store(interval == 0 ? 1 : interval, std::memory_order_relaxed);
  on_.store(true, std::memory_order_relaxed);
}

[[gnu::cold]] bool Profiler::tell_history(Nanos now) NO_THREAD_SAFETY_ANALYSIS {
  lock_all();
  const bool begins = !contexts_.history().is_on();
  const bool good = contexts_.start_history();
  if (begins && good)
    live_.for_each_locked([&](const LiveSample& s) {
      contexts_.lock().assert_held();
      contexts_.add_live(s.context, s.bytes(), now);
    });
  unlock_all();
  return good;
}

void Profiler::bound_contexts(uint32_t most, uint32_t freely) {
  stacks_.bound(most, freely);
  contexts_.bound(most);
}

bool Profiler::on_alloc(const void* p, size_t size, const StackTrace& trace, uint64_t context_key,
                        LifetimeClass predicted, Nanos now, uint32_t thread, uint32_t cpu,
                        uint32_t tag, bool first) {
  if (!on()) return false;
  const uint32_t stack = stacks_.intern(trace);
  const uint32_t context = stack == StackTable::kNone
                               ? LifetimeTable::kNone
                               : contexts_.intern(stack, size_bucket(size), tag);
  const double weight = first ? 1 : sample_weight(size, static_cast<double>(interval()));
  LiveSample replaced{};
  const bool recorded = context != LifetimeTable::kNone &&
                        live_.insert({address_of(p), size, now, weight, context_key, context,
                                      thread, cpu, predicted, first},
                                     &replaced);
  if (replaced.address != 0) contexts_.live_changed(replaced.context, -replaced.bytes(), now);
  if (recorded) contexts_.live_changed(context, weight * static_cast<double>(size), now);
  if (recorded && first) firsts_.fetch_add(1, std::memory_order_relaxed);
  (recorded ? samples_ : dropped_).fetch_add(1, std::memory_order_relaxed);
  return recorded;
}

Profiler::Freed Profiler::on_free(const void* p, Nanos now, uint32_t thread, uint32_t cpu) {
  Freed freed{};
  live_.take(address_of(p), [&](const LiveSample& s) {
    const Nanos lifetime = now > s.born ? now - s.born : Nanos{0};
    const Death death{s.size, s.weight, lifetime, s.thread == thread, s.cpu == cpu, s.first};
    if (!contexts_.record(s.context, death, now)) dropped_.fetch_add(1, std::memory_order_relaxed);
    freed = {true, lifetime, s.context_key, s.predicted, s.size, s.bytes()};
  });
  return freed;
}

void Profiler::on_resize(const void* p, size_t new_size) {
  live_.resize(address_of(p), new_size, [&](const LiveSample& s) {
    const double change = static_cast<double>(new_size) - static_cast<double>(s.size);
    contexts_.live_changed(s.context, s.weight * change);
  });
}

void Profiler::on_leave(const void* p, const void* record) {
  live_.move(address_of(p), address_of(record));
}

void Profiler::on_arrive(const void* record, const void* p) {
  live_.move(address_of(record), address_of(p));
}

bool Profiler::stack_of_live(const void* p, uint32_t* stack) {
  return live_.look_up(address_of(p),
                       [&](const LiveSample& s) { *stack = contexts_.stack_of(s.context); });
}

double Profiler::weight_of_live(const void* p) {
  double weight = 0;
  live_.look_up(address_of(p), [&](const LiveSample& s) { weight = s.weight; });
  return weight;
}

size_t Profiler::size_of_live(const void* p) {
  size_t size = SIZE_MAX;
  live_.look_up(address_of(p), [&](const LiveSample& s) { size = s.size; });
  return size;
}

[[gnu::cold]] void Profiler::sum_by_tag(TagSum* sums, uint32_t count) {
  live_.for_each([&](const LiveSample& s) {
    const uint32_t tag = contexts_.tag_of(s.context);
    if (tag >= count) return;
    sums[tag].live_objects += s.weight;
    sums[tag].live_bytes += s.weight * static_cast<double>(s.size);
  });
  LockGuard guard(contexts_.lock());
  for (uint32_t i = 0; i < contexts_.size(); ++i) {
    const LifetimeStats& dead = contexts_.row(i);
    if (dead.tag >= count) continue;
    sums[dead.tag].freed_objects += dead.weighted_count;
    sums[dead.tag].freed_bytes += dead.weighted_bytes;
  }
}

[[gnu::cold]] bool Profiler::name_frames(FrameNames& names) {
  LockGuard naming(naming_lock_);
  return name_frames_locked(names);
}

[[gnu::cold]] bool Profiler::name_frames_locked(FrameNames& names) {
  if (named_ == nullptr) named_ = arena_.make<NamedFrames>(arena_);
  return named_ != nullptr && named_->update(stacks_, names);
}

[[gnu::cold]] bool Profiler::write(ByteSink& sink, FrameNames& names, const WriteInfo& info) {
  ScratchPages pages(pages_);
  MetadataArena scratch(pages);
  Snapshot snapshot;
  lock_all();
  const bool copied = snapshot.copy(scratch, contexts_, live_, info.now);
  if (copied && info.at_exit) snapshot.undo_teardown(scratch, contexts_, live_, info.now);
  unlock_all();
  if (!copied) return false;
  snapshot.sort();
  int64_t began = began_.load(std::memory_order_relaxed);
  if (info.window != nullptr) {
    began = info.window->opened.n;
    if (info.kind == ProfileKind::lifetimes)
      snapshot.keep_since(info.window->before, info.now - info.window->opened);
  }
  const bool in_use = info.kind == ProfileKind::heap || info.kind == ProfileKind::pinned;
  if (in_use) began = complete_since().n;
  const Nanos duration = began == kNever ? Nanos{0} : info.now - Nanos{began};
  LockGuard naming(naming_lock_);
  if (!name_frames_locked(names)) return false;
  PprofWriter* writer = scratch.make<PprofWriter>(scratch, sink, *named_, stacks_, tags_);
  return writer != nullptr &&
         writer->write({.time = info.wall_time - duration,
                        .duration = duration,
                        .interval = interval(),
                        .at_exit = info.at_exit,
                        .kind = info.kind,
                        .pinned = info.pinned,
                        .before = info.window == nullptr ? nullptr : &info.window->before,
                        .program = info.program,
                        .load = info.load,
                        .began = Nanos{began},
                        .sampling = on(),
                        .from_start = began != kNever && began <= info.started.n},
                       snapshot);
}

[[gnu::cold]] bool Profiler::open_window(ProfileWindow* window, Nanos now) {
  lock_all();
  const bool copied = window->before.copy(window->scratch, contexts_, live_, now);
  unlock_all();
  window->before.sort();
  window->opened = now;
  return copied;
}

[[gnu::cold]] void Profiler::lock_all() NO_THREAD_SAFETY_ANALYSIS {
  live_.lock_all();
  contexts_.lock().lock();
  stacks_.lock().lock();
  tags_.lock().lock();
}

[[gnu::cold]] void Profiler::unlock_all() NO_THREAD_SAFETY_ANALYSIS {
  tags_.lock().unlock();
  stacks_.lock().unlock();
  contexts_.lock().unlock();
  live_.unlock_all();
}

[[gnu::cold]] void Profiler::reset_locks_after_fork() {
  naming_lock_.reset();
  tags_.lock().reset();
  stacks_.lock().reset();
  contexts_.lock().reset();
  live_.reset_locks_after_fork();
}

[[gnu::cold]] void Profiler::forget_all(Nanos now) {
  live_.clear();
  contexts_.clear();
  samples_.store(0, std::memory_order_relaxed);
  firsts_.store(0, std::memory_order_relaxed);
  dropped_.store(0, std::memory_order_relaxed);
  began_.store(on() ? now.n : kNever, std::memory_order_relaxed);
  complete_since_.store(on() ? now.n : kNever, std::memory_order_relaxed);
}

bool Profiler::is_consistent() {
  return live_.is_consistent() && contexts_.is_consistent() && tags_.is_consistent();
}

}  // namespace llamalloc
