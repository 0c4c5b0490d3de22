// SPDX-License-Identifier: Apache-2.0
// Whether the parts of a context (its sizes, its callers) differ in how long their objects live, or
// only seem to.
//
// Where one object in 200 stays, whatever its size, and each size has 40 samples, most sizes show
// none that stays, and are taken for short-lived. To place by that saves nothing. So this asks how
// far the counts of objects that stay are from what chance would give them (Pearson's test of
// homogeneity, with the variance that small counts have):
//
//   k  samples of a part that outlived most      chi2 = sum of (k - n K/N)^2 / (n K/N (1 - K/N))
//   n  these, and those that did not             mean = parts - 1
//   N, K  sums over the parts                    variance = 2 (parts - 1)
//                                                    + (1 / (K/N (1 - K/N)) - 6) sum of 1/n
//
// *Most* is the page group in which most samples died. A part that lives longer as a whole is
// another matter, and proves nothing of the rest.
#pragma once

#include "policy/evidence.h"

namespace llamalloc {

class Parts {
 public:
  void add(const Evidence& part);
  // False: what stays lies among them as if by chance.
  bool differ() const;

 private:
  static constexpr double kDeviations = 4;

  struct Sums {
    double deaths = 0;    // in the group
    double samples = 0;   // N
    double longer = 0;    // K: that outlived the group
    double squares = 0;   // of k, by n
    double inverses = 0;  // of n
    double parts = 0;
  };
  static constexpr PageGroup kGroups[] = {PageGroup::transient, PageGroup::brief};
  Sums sums_[2];  // of these; zeroes are none
};

}  // namespace llamalloc
