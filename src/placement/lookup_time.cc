// SPDX-License-Identifier: Apache-2.0
#include "placement/lookup_time.h"

#include <algorithm>
#include <utility>

namespace llamalloc {

// The clock of a forked child begins anew. A trough, in which the process does little, is not to
// hide what its load costs.
void LookupTime::step(uint64_t lookups, Nanos used) {
  const Nanos step = used - std::exchange(used_before_, used);
  const auto worked = static_cast<double>(std::max<int64_t>(step.n, 0));
  const auto looked_up = static_cast<double>(lookups - std::exchange(lookups_before_, lookups));
  const double usual = used_ / kFade;
  const double kept = 1 - (worked < usual ? worked / usual : 1) / kFade;
  lookups_ = lookups_ * kept + looked_up;
  used_ = used_ * kept + worked;
  now_ = worked < static_cast<double>(kLeastStep.n) ? -1 : looked_up / worked;
}

double LookupTime::share() const {
  return used_before_ < kLeast || used_ <= 0 ? 0 : lookups_ / used_;
}

}  // namespace llamalloc
