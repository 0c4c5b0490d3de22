// SPDX-License-Identifier: Apache-2.0
#include "policy/lookup_time.h"

#include <algorithm>
#include <utility>

namespace llamalloc {

// The clock of a forked child begins anew.
void LookupTime::step(uint64_t lookups, Nanos used) {
  constexpr double kKept = (kFade - 1) / kFade;
  const Nanos worked = used - std::exchange(used_before_, used);
  lookups_ = lookups_ * kKept + static_cast<double>(lookups - lookups_before_);
  used_ = used_ * kKept + static_cast<double>(std::max<int64_t>(worked.n, 0));
  lookups_before_ = lookups;
}

double LookupTime::share() const {
  return used_ < static_cast<double>(kLeast.n) ? 0 : lookups_ / used_;
}

}  // namespace llamalloc
