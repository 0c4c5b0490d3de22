// SPDX-License-Identifier: Apache-2.0
// What placement by lifetime costs of the processor: each allocation is looked up, and threads hold
// slots of several page groups, which their processor's caches have to hold, too. The share of the
// time that the process uses, of late. The gate (gate.h) places objects only where it is small.
//
// Samples tell how many allocations there are. While contexts are looked up, that of each sample
// is timed; alone it takes longer than among other work, which it overlaps with. Before that, what
// was learned tells how many callers each is asked for: none where the site decides. Of what is not
// known yet none is assumed, or a first run that fills a heap at once would seem too dear.
//
// Both prices are fitted to whole programs with placement and without (docs/learning.md). In a loop
// that does nothing else a lookup takes a fourth of that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace llamalloc {

constexpr Nanos price_of_lookup(int callers) {
  return Nanos{6 + 7 * callers};
}
inline constexpr int kCallersOfUnknown = 0;

// taken: with a reading of the clock more than without. An interrupt is no lookup.
constexpr Nanos timed_lookup(Nanos taken) {
  return Nanos{std::clamp<int64_t>(taken.n, 0, 300) * 3 / 5};
}
// On top of that, where the context was not cached: a program may have more of them than there is
// room for.
inline constexpr Nanos kPriceOfMiss{150};
// Where reading the clock takes longer, lookups cannot be timed.
inline constexpr Nanos kMostOfClock = Nanos{150};

class LookupTime {
 public:
  static constexpr double kFade = 32;  // steps; more where the process works less than it did
  static constexpr Nanos kLeast = Nanos::seconds(1);     // of work, before anything is said:
                                                         // a start may fill a heap, and do no more
  static constexpr Nanos kLeastStep = Nanos::millis(5);  // of work, before a step says something

  // About once a second. lookups: nanoseconds, and used: processor time of the process, both since
  // it began.
  void step(uint64_t lookups, Nanos used);
  double share() const;
  // Of the last step; negative: it did too little to tell.
  double share_now() const { return now_; }

 private:
  uint64_t lookups_before_ = 0;
  Nanos used_before_{};
  double lookups_ = 0, used_ = 0;  // nanoseconds, faded
  double now_ = -1;
};

}  // namespace llamalloc
