// SPDX-License-Identifier: Apache-2.0
// Whether the parts of a context (its sizes, its callers) differ in how long their objects live, or
// only seem to.
//
// Where one object in 200 stays, whatever its size, and each size has 40 samples, most sizes show
// none that stays, and are taken for short-lived. To place by that saves nothing. So this asks how
// far the counts of objects that stay are from what chance would give them (Pearson's test of
// homogeneity, with the variance that small counts have):
//
//   k  samples of a part that stay               chi2 = sum of (k - n K/N)^2 / (n K/N (1 - K/N))
//   n  these, and those that did not             mean = parts - 1
//   N, K  sums over the parts                    variance = 2 (parts - 1)
//                                                    + (1 / (K/N (1 - K/N)) - 6) sum of 1/n
//
// What outlives the page group of the part in question stays; of a `transient` part, what outlives
// `brief` must not lie among the parts by chance either. A part that stays as a whole is another
// matter, and proves nothing of the rest.
#pragma once

#include "policy/evidence.h"

namespace llamalloc {

class Parts {
 public:
  void add(const Evidence& part);
  // Of a part that seems to die so soon. False: what stays lies among all parts as if by chance.
  bool differ(LifetimeClass shown) const;

 private:
  static constexpr double kDeviations = 4;

  struct Sums {
    double samples = 0;   // N
    double longer = 0;    // K: that outlive the group
    double squares = 0;   // of k, by n
    double inverses = 0;  // of n
    double parts = 0;
  };
  static bool differ(const Sums& sums);

  static constexpr PageGroup kGroups[] = {PageGroup::transient, PageGroup::brief};
  Sums sums_[2];  // of these; zeroes are none
};

}  // namespace llamalloc
