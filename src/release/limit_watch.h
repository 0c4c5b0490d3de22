// SPDX-License-Identifier: Apache-2.0
// How near the memory limits are, and when their files are worth reading again.
//
//   room   |<------------ limit ------------>|
//          [ far | read more often ... | near | at ]
//            1/2   1/4                   1/8    1/32 of the limit
//
// Between two readings the room shrinks by what the process itself took meanwhile. Near a limit
// what is free is kept for later only while it is little beside the room; at it nothing is, and
// partly free pages are broken at once. Pure: the caller reads.
#pragma once

#include "base/units.h"

namespace llamalloc {

// How near the memory limit is that will be met first.
struct Pressure {
  enum class Level : uint8_t { none, near, at };
  Level level = Level::none;
  size_t room = SIZE_MAX;  // bytes below the limit; SIZE_MAX: there is none
  // Bytes until a 16th of a limit is left that ends what passes it.
  size_t before_full = SIZE_MAX;
  bool waits = false;  // tasks wait for memory, as the system tells
};

class LimitWatch {
 public:
  static constexpr Nanos kOften = Nanos::seconds(1);
  static constexpr Nanos kSeldom = Nanos::seconds(10);
  static constexpr Nanos kNoLimit = Nanos::seconds(30);
  static constexpr uint32_t kShortOfMemory = 2000;  // 20 % of the time, in 1/100 %

  bool is_due(Nanos now) const { return now >= next_ || now < read_; }
  // What was read: `limit` and `room` as in os/memory_limits.h; own: bytes that this process backs.
  void take(Nanos now, size_t limit, size_t room, uint32_t pressure, size_t own);
  // Then: the limit that has the least room by its size, which may be the same; SIZE_MAX: none.
  void take_tightest(size_t limit, size_t room);
  // Nothing can be read any more.
  void forget(Nanos now) { take(now, SIZE_MAX, SIZE_MAX, 0, 0); }
  // soft, hard: the process's own limits; 0: none.
  Pressure pressure(size_t own, size_t soft, size_t hard) const;

 private:
  static Nanos rest_for(size_t limit, size_t room);

  Nanos read_{}, next_{};
  size_t limit_ = SIZE_MAX, room_ = SIZE_MAX;
  size_t tightest_ = SIZE_MAX, tightest_room_ = SIZE_MAX;
  size_t own_then_ = 0;
  bool short_of_memory_ = false;
};

}  // namespace llamalloc
