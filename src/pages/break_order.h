// SPDX-License-Identifier: Apache-2.0
// Which sparse page is broken first: the one that frees the most memory for the longest time, for
// the processor time that it costs.
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
struct BreakCosts {
  Nanos whole{1'000'000};    // to split it, and give back what is free of it
  Nanos in_pieces{200'000};  // to give back what is free
  Nanos mending{1'000'000};

  static void learn(Nanos* mean, Nanos one) { mean->n += (one.n - mean->n) / 8; }
  Nanos& of_breaking(bool is_whole) { return is_whole ? whole : in_pieces; }
  Nanos of(bool is_whole) const { return is_whole ? whole + mending : in_pieces; }
};

// gain: bytes. rest: since the page was last used.
constexpr double worth_of_breaking(size_t gain, Nanos rest, Nanos cost) {
  const double free_for = static_cast<double>(rest.n < 0 ? 0 : rest.n) + 1;
  return static_cast<double>(gain) * free_for / static_cast<double>(cost.n < 1 ? 1 : cost.n);
}

}  // namespace llamalloc
