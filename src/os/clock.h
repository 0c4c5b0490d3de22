// SPDX-License-Identifier: Apache-2.0
// The clocks of the system.
#pragma once

#include <time.h>

#include "base/units.h"

namespace llamalloc {

inline Nanos read_clock(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
}

}  // namespace llamalloc
