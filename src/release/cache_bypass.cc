// SPDX-License-Identifier: Apache-2.0
#include "release/cache_bypass.h"

#include <algorithm>

namespace llamalloc {

bool CacheBypass::step(Nanos now, size_t held, size_t live, bool used_up) {
  falls_ = less(before_, live) > held / kFall;
  before_ = live;
  if (falls_) {
    pause_ = until_ = {};
  } else if (used_up) {
    pause_ = std::clamp(Nanos{2 * pause_.n}, Nanos::seconds(1), kLongestPause);
    until_ = now + pause_;
  }
  const size_t free = less(held, live);
  return free >= kMuch && free >= held / kPart && now >= until_;
}

}  // namespace llamalloc
