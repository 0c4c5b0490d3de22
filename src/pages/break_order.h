// SPDX-License-Identifier: Apache-2.0
// Which partly free page is broken first: the one that frees the most memory for the longest time,
// for the processor time that it costs.
//
//   worth = bytes it frees x time they stay free / (split + discard, and mending when it fills)
//
// How long the bytes stay free is not known; a page that was at rest for long is expected to rest
// for as long again. A page in pieces needs no split, and is mended anyway. What each of them takes
// on this machine is measured. Pure: no clock, lock or system call of its own.
#pragma once

#include <cstddef>

#include "base/units.h"

namespace llamalloc {

// Means of late, for one page.
class BreakCosts {
 public:
  // took: to split it, if it was whole, and to give back what is free of it.
  void broke(bool was_whole, Nanos took) { learn(was_whole ? whole_ : in_pieces_, took); }
  void mended(Nanos took) { learn(mending_, took); }
  Nanos of(bool is_whole) const { return is_whole ? whole_ + mending_ : in_pieces_; }

 private:
  static void learn(Nanos& mean, Nanos one) { mean.n += (one.n - mean.n) / 8; }

  Nanos whole_{1'000'000}, in_pieces_{200'000}, mending_{1'000'000};
};

// gain: bytes. rest: since the page was last used.
constexpr double worth_of_breaking(size_t gain, Nanos rest, Nanos cost) {
  const double free_for = static_cast<double>(rest.n < 0 ? 0 : rest.n) + 1;
  return static_cast<double>(gain) * free_for / static_cast<double>(cost.n < 1 ? 1 : cost.n);
}

}  // namespace llamalloc
