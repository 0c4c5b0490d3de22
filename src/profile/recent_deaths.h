// SPDX-License-Identifier: Apache-2.0
// The latest deaths of samples, so that a profile that is written at exit can tell what died of the
// program's end: a clean shutdown frees everything, and that says nothing about lifetimes.
//
//   live bytes   --------.         start: when most was alive, before a fall that goes on to the
//                        '.        exit: by a tenth or more in each kWindow
//                          '-- exit: less than half of that
//
// What was born before the start and died after it was alive at the start: its life is censored
// there (contracts/profile_format.md). The same rule as Learner's (learning/learner.h), for
// objects.
#pragma once

#include "base/units.h"
#include "os/arena.h"
#include "profile/live_samples.h"

namespace llamalloc {

struct RecentDeath {
  Nanos died;
  Nanos lifetime;
  double weight;
  size_t size;
  uint32_t context;
  bool same_thread;
  bool same_cpu;
  bool first;  // Death::first

  Nanos born() const { return died - lifetime; }
  double bytes() const { return weight * static_cast<double>(size); }
};

class RecentDeaths {
 public:
  static constexpr uint32_t kRoom = 1u << 14;  // 0.8 MiB; 8 GiB of samples of 512 KiB
  static constexpr Nanos kWindow = Nanos::seconds(3);
  static constexpr double kFallen = 0.9;
  static constexpr double kCollapsed = 0.5;  // of the peak
  static constexpr uint32_t kFewest = 16;    // samples that it must have killed: less is chance

  // Keeps nothing before. False: no memory.
  bool open(MetadataArena& arena) {
    if (deaths_ == nullptr) deaths_ = arena.make_array<RecentDeath>(kRoom);
    return deaths_ != nullptr;
  }
  void add(const RecentDeath& death) {
    if (deaths_ != nullptr) deaths_[count_++ % kRoom] = death;
  }
  void clear() { count_ = 0; }
  uint32_t size() const { return static_cast<uint32_t>(count_ < kRoom ? count_ : kRoom); }
  // In no order.
  const RecentDeath& operator[](uint32_t i) const { return deaths_[i]; }

  // When the teardown began that ends at `now`; `now`: there is none, or no memory to tell.
  // live: visited by who holds all of its locks.
  Nanos teardown(const LiveSamples& live, MetadataArena& scratch, Nanos now) const;

 private:
  RecentDeath* deaths_ = nullptr;
  uint64_t count_ = 0;  // ever added
};

}  // namespace llamalloc
