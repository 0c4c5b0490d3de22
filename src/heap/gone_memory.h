// SPDX-License-Identifier: Apache-2.0
// Memory that went back to the system of late, by the time when it was freed. What is fetched
// serves as what was freed last; so it tells how long that would have had to be held.
//
//   add:  [ 20 MiB freed at 5.0 s | 8 MiB at 5.3 s ]   <- newest; the oldest is forgotten
//   take:                           newest first, of whatever size it was
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace llamalloc {

class GoneMemory {
 public:
  static constexpr Nanos kTogether = Nanos::millis(50);  // what is freed within it is one part
  static constexpr int kParts = 64;                      // 3.2 s of frees, the longest hold

  void add(size_t bytes, Nanos freed) {
    Part& newest = parts_[newest_];
    if (newest.bytes != 0 && freed.n / kTogether.n == newest.freed.n / kTogether.n) {
      newest.bytes += bytes;
      return;
    }
    newest_ = (newest_ + 1) % kParts;
    parts_[newest_] = {freed, bytes};
  }

  // Up to so many bytes: f(freed, bytes of one part).
  template <typename F>
  void take(size_t bytes, F&& f) {
    for (int i = 0; i < kParts && bytes != 0 && parts_[newest_].bytes != 0; ++i) {
      Part& newest = parts_[newest_];
      const size_t part = bytes < newest.bytes ? bytes : newest.bytes;
      f(newest.freed, part);
      bytes -= part;
      newest.bytes -= part;
      if (newest.bytes == 0) newest_ = (newest_ + kParts - 1) % kParts;
    }
  }

 private:
  struct Part {
    Nanos freed{};
    size_t bytes = 0;
  };
  Part parts_[kParts]{};
  int newest_ = 0;
};

}  // namespace llamalloc
