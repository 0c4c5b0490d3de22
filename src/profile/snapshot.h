// SPDX-License-Identifier: Apache-2.0
// A copy of the profiler's data at one instant. It can be written without any lock.
#pragma once

#include "profile/lifetime_table.h"
#include "profile/live_samples.h"

namespace llamalloc {

// A sampled object that was alive.
struct Survivor {
  uint32_t context;
  size_t size;
  double weight;
  Nanos age;
  uintptr_t address;
};

struct Snapshot {
  LifetimeStats* contexts = nullptr;  // [context_count], histograms of their own
  uint32_t context_count = 0;
  Survivor* survivors = nullptr;  // [survivor_count], by context
  size_t survivor_count = 0;

  // Without a history (Profiler::tell_history) there are none of these.
  double peak = 0;  // bytes, of all contexts
  Nanos peak_at{};
  double* at_peak = nullptr;    // [context_count]
  LivePoint* points = nullptr;  // [point_count]
  uint32_t point_count = 0;
  LiveShare* shares = nullptr;  // [share_count], by context, then by point
  uint32_t share_count = 0;

  // The caller holds every lock of both tables. False: no memory.
  bool copy(MetadataArena& scratch, LifetimeTable& table, const LiveSamples& live, Nanos now);
  // The same, after copy: what the program's end killed counts as alive when that began.
  void undo_teardown(MetadataArena& scratch, const LifetimeTable& table, const LiveSamples& live,
                     Nanos now);
  // Afterwards, unlocked.
  void sort();
  // Takes away what the copy `before` held, so that only what happened since remains: deaths since,
  // and survivors not older than `age`. Both are sorted.
  void keep_since(const Snapshot& before, Nanos age);

 private:
  bool copy_history(MetadataArena& scratch, const LiveHistory& history, Nanos now);
};

}  // namespace llamalloc
