// SPDX-License-Identifier: Apache-2.0
// The interface of profile to the runtime: records samples and their deaths, and writes the
// profile.
//
//   on_alloc --> StackTable --> LifetimeTable --> LiveSamples
//                                     ^               |
//   on_free  <------------------------+---------------+      dead: into the context's statistics
//   write    --> Snapshot (all locked, milliseconds) --> PprofWriter (nothing locked)
//
// The runtime decides which objects are sampled (sampler.h). It remembers whether an object was
// sampled, and calls on_free only for sampled objects. In a process with a model the profiler also
// checks predictions: on_free then returns the context and the class that was predicted for it.
#pragma once

#include <atomic>

#include "base/stack_trace.h"
#include "os/byte_sink.h"
#include "profile/frame_names.h"
#include "profile/lifetime_table.h"
#include "profile/live_samples.h"
#include "profile/named_frames.h"
#include "profile/profile_view.h"
#include "profile/stack_table.h"
#include "profile/tag_table.h"

namespace llamalloc {

class Profiler {
 public:
  static constexpr int64_t kNever = -1;  // ns

  // pages: where a write takes its scratch memory, given back at its end.
  constexpr Profiler(MetadataArena& arena, PageSource& pages)
      : arena_(arena), pages_(pages), stacks_(arena), contexts_(arena), live_(arena) {}

  // Samples from now on count for `interval` bytes (>= 1) each; also changes a running interval.
  void start(size_t interval, Nanos now);
  // Every object that is alive and was allocated since then had its chance to be sampled. Negative:
  // sampling is off and never was on.
  Nanos complete_since() const { return {complete_since_.load(std::memory_order_relaxed)}; }
  // No new samples; frees of sampled objects are still recorded.
  void stop() { on_.store(false, std::memory_order_relaxed); }
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Samples of new contexts are dropped once there are so many: a program without end of them, such
  // as an interpreter, would fill memory.
  // From `freely` stacks on, so are first samples of new ones (StackTable::bound).
  void bound_contexts(uint32_t most, uint32_t freely);
  // For a profile written at exit: what died of the program's end is then told apart. False: no
  // memory.
  bool tell_teardown() { return contexts_.keep_recent_deaths(); }
  // A profile then shows live bytes along time and at their peak. A sample that is taken meanwhile
  // may count twice. False: no memory.
  bool tell_history(Nanos now);
  size_t interval() const { return interval_.load(std::memory_order_relaxed); }

  // Records a sampled object. False: off, or no memory (counted in dropped()); if true, on_free
  // must be called when it is freed. thread, cpu: any numbers that tell them apart. tag: of tags().
  // first: it was certain to be sampled, so it stands for itself alone.
  bool on_alloc(const void* p, size_t size, const StackTrace& trace, uint64_t context_key,
                LifetimeClass predicted, Nanos now, uint32_t thread, uint32_t cpu, uint32_t tag = 0,
                bool first = false);

  struct Freed {
    bool found;  // false: not sampled by this process; the rest is then 0
    Nanos lifetime;
    uint64_t context_key;
    LifetimeClass predicted;
    size_t size;
    double bytes;  // that it stood for
  };
  Freed on_free(const void* p, Nanos now, uint32_t thread, uint32_t cpu);
  // The object was resized in place: the same sample of another size.
  void on_resize(const void* p, size_t new_size);
  // Around a resize that may move it. As soon as the system has moved it, its old address may be
  // that of another sample: in between it goes by that of its record, which it alone has.
  void on_leave(const void* p, const void* record);
  void on_arrive(const void* record, const void* p);

  struct Live {
    const void* address;
    size_t size;
    uint32_t stack;  // id in stacks()
    Nanos age;
    uint64_t context_key;
    LifetimeClass predicted;
    uint32_t context;  // id in contexts()
    double weight;
    bool first;
  };
  // Calls f(const Live&) for each sampled object alive, under a lock: f must not call back, malloc
  // or wait.
  template <typename F>
  void for_each_live(Nanos now, F&& f) {
    live_.for_each([&](const LiveSample& s) {
      f(Live{reinterpret_cast<const void*>(s.address), s.size, contexts_.stack_of(s.context),
             now - s.born, s.context_key, s.predicted, s.context, s.weight, s.first});
    });
  }
  const StackTable& stacks() const { return stacks_; }
  LifetimeTable& contexts() { return contexts_; }
  // The stack that allocated a sampled object that is alive; false: not known.
  bool stack_of_live(const void* p, uint32_t* stack);
  // How many objects a sampled object that is alive stands for; 0: not known.
  double weight_of_live(const void* p);
  // The size that it was asked for; SIZE_MAX: not known.
  size_t size_of_live(const void* p);

  TagTable& tags() { return tags_; }
  struct TagSum {
    double live_objects = 0, live_bytes = 0;    // estimates for the whole process, as all here
    double freed_objects = 0, freed_bytes = 0;  // since sampling began
  };
  // sums: [tags().size()] as it is before the call, or fewer.
  void sum_by_tag(TagSum* sums, uint32_t count);

  // Names the frames that have no name yet and keeps the names: often enough that the code is still
  // loaded; write() does it, too. False: no memory. The caller sees to it that no thread forks
  // meanwhile.
  bool name_frames(FrameNames& names);
  template <typename Symboliser>
  bool name_frames(Symboliser& symboliser) {
    FrameNamesOf<Symboliser> names(symboliser);
    return name_frames(static_cast<FrameNames&>(names));
  }
  // Does that, and then calls f(const NamedFrames&). False: no memory.
  template <typename F>
  bool with_names(FrameNames& names, F&& f) {
    LockGuard naming(naming_lock_);
    if (!name_frames_locked(names)) return false;
    f(static_cast<const NamedFrames&>(*named_));
    return true;
  }

  struct WriteInfo {
    Nanos now;        // monotonic clock, as above
    Nanos wall_time;  // since the epoch, UTC
    bool at_exit;     // the process is ending
    ProfileKind kind = ProfileKind::lifetimes;
    const ProfileWindow* window = nullptr;  // only what happened since it was opened
    const PinnedPages* pinned = nullptr;    // for ProfileKind::pinned
    const char* program = nullptr;          // how it was called; null: not said
    Nanos started{kNever};                  // when the process did, as `now`
    const char* load = nullptr;             // the comment llamalloc-gate; null or empty: none
  };
  // A profile of the time from now on can be written later. False: no memory.
  bool open_window(ProfileWindow* window, Nanos now);
  // The profile so far (contracts/profile_format.md). False: the sink failed, or no memory for the
  // tables. Takes the time of naming every new frame, with nothing locked that a sample needs; may
  // run on several threads at once, each with a sink of its own: they take turns.
  bool write(ByteSink& sink, FrameNames& names, const WriteInfo& info);
  // The same with any object that has frame_name and module_of (os/symbols.h: Symboliser).
  template <typename Symboliser>
  bool write(ByteSink& sink, Symboliser& symboliser, const WriteInfo& info) {
    FrameNamesOf<Symboliser> names(symboliser);
    return write(sink, static_cast<FrameNames&>(names), info);
  }

  // As PageHeap::publish.
  template <typename F>
  void publish(F&& f) const {
    f("stat.samples", &samples_);
    f("stat.samples_dropped", &dropped_);
    f("profiler.on", &on_);
    f("profiler.interval", &interval_);
    f("profiler.complete_since", &complete_since_);
  }
  // Those of samples() that were firsts.
  uint64_t firsts() const { return firsts_.load(std::memory_order_relaxed); }
  uint64_t samples() const { return samples_.load(std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  // Around fork: lock_all before (then the arena's lock), unlock_all in the parent;
  // reset_locks_after_fork in the child, and forget_all for an empty profile that starts there.
  void lock_all();
  void unlock_all();
  void reset_locks_after_fork();
  void forget_all(Nanos now);
  bool is_consistent();

 private:
  bool name_frames_locked(FrameNames& names) REQUIRES(naming_lock_);

  MetadataArena& arena_;
  PageSource& pages_;
  StackTable stacks_;
  TagTable tags_;
  LifetimeTable contexts_;
  LiveSamples live_;
  Lock naming_lock_{LockRank::profile_naming};
  NamedFrames* named_ GUARDED_BY(naming_lock_) = nullptr;  // made when first needed
  std::atomic<bool> on_{false};
  std::atomic<size_t> interval_{524288};
  std::atomic<int64_t> began_{kNever};           // ns: the first start
  std::atomic<int64_t> complete_since_{kNever};  // ns: the last start while it was off
  std::atomic<uint64_t> samples_{0};
  std::atomic<uint64_t> firsts_{0};
  std::atomic<uint64_t> dropped_{0};
};

}  // namespace llamalloc
