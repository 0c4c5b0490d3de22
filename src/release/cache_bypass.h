// SPDX-License-Identifier: Apache-2.0
// When threads shall not allocate from their caches: while a load is low, and much of the heap is
// free but held.
//
// A cache hands out what was freed last, wherever it lies. At high load that is as good as any
// slot. At low load objects still come and go, if few at a time; each takes the slot of the one
// before it, so what is alive stays scattered over the pages that the peak has left, and pins all
// of them for as long as the low load lasts. Past the cache, an object gets the lowest free slot.
// So after one lifetime of what comes and goes, it lies in few pages.
//
// An allocation past the cache takes about 25 ns more; frees cost what they always do. So a process
// makes at most kCalls of them a second. If that was too few, the load is not low: there is a
// pause, twice as long each time. While live memory falls there is none: then it is not known yet
// how low the load will be.
//
// Pure: no clock, no globals.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace llamalloc {

class CacheBypass {
 public:
  static constexpr uint32_t kCalls = uint32_t{1} << 18;  // a second, of all threads
  static constexpr size_t kMuch = size_t{16} << 20;      // bytes that are free but held,
  static constexpr size_t kPart = 4;                     // and one in so many
  static constexpr size_t kFall = 32;                    // of what is held: one in so many
  static constexpr Nanos kLongestPause = Nanos::seconds(32);

  // For the next second. used_up: a thread has made all the calls past its cache that it might
  // since the last step.
  bool step(Nanos now, size_t held, size_t live, bool used_up);
  // Live memory, in the last step: caches are to stay small, since objects still come fast, too.
  bool falls() const { return falls_; }

 private:
  Nanos pause_{};
  Nanos until_{};      // of the pause
  size_t before_ = 0;  // live bytes at the last step
  bool falls_ = false;
};

}  // namespace llamalloc
