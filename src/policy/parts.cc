// SPDX-License-Identifier: Apache-2.0
#include "policy/parts.h"

#include <algorithm>

namespace llamalloc {

void Parts::add(const Evidence& part) {
  for (int i = 0; i < 2; ++i) {
    Sums& sums = sums_[i];
    double n = 0, k = 0;
    for (int c = 0; c < kTimedClasses; ++c) {
      const PageGroup group = group_of(static_cast<LifetimeClass>(c));
      const double deaths = part.deaths[c], outlived = deaths + part.young[c];
      k += group > kGroups[i] ? outlived : 0;
      n += group > kGroups[i] ? outlived : deaths;
    }
    if (n == 0 || (n >= kEnoughLong && k > n / 2)) continue;
    sums.samples += n;
    sums.longer += k;
    sums.squares += k * k / n;
    sums.inverses += 1 / n;
    ++sums.parts;
  }
}

bool Parts::differ(LifetimeClass shown) const {
  const bool soon = group_of(shown) > kGroups[0] || differ(sums_[0]);
  return soon && differ(sums_[1]);
}

bool Parts::differ(const Sums& sums) {
  if (sums.longer <= kTail * sums.samples) return true;
  const double share = sums.longer / sums.samples, spread = share * (1 - share);
  const double mean = sums.parts - 1;
  const double above = (sums.squares - sums.longer * share) / spread - mean;
  const double variance = 2 * mean + std::max(0.0, 1 / spread - 6) * sums.inverses;
  return above > 0 && above * above > kDeviations * kDeviations * variance;
}

}  // namespace llamalloc
