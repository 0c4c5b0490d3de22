// SPDX-License-Identifier: Apache-2.0
// How long empty huge pages, or freed mappings, are held before they go back to the system.
//
// Holding is rent, fetching again what went back is the price to buy (ski rental). The rent that is
// paid at least is the option's time: who comes back within it never pays. It is doubled, up to
// 4 times, where the observed gaps say that this brings the time spent in fetching below kShare:
//
//   fetched again a second at a hold of T = bytes whose gap was longer than T
//   hold = the least of { least, 2 x, 4 x } at which fetching takes at most kShare of the
//   time;
//          if none does, the least of those at which it takes least
//
// A hold that would keep more than `most_extra` bytes on average, beyond what the least one keeps,
// is not taken: what is fetched again so often that it must be held is then too much to hold.
//
// So memory that nobody needs again, or much later, is not held longer. Old gaps fade.
//
// That is unless fetching costs too much of the processor time that the process uses. Each fetch is
// a debt of what it costs on this machine: 0.2 ms, or 5 ms where the host has to find the memory
// first. When that is measured anew, what was fetched of late is owed at the new price. The work of
// the process pays off kShareOfWork. While more than kCredit is owed, kShare counts this price, and
// the hold may be 32 times the least one, whatever it keeps: a load that swings all the time keeps
// its memory, as it would if some of its objects pinned it. One that swings now and then stays
// within the credit.
//
// For a process at rest, which uses less than kRest of a processor, it is 4 times the least one at
// most, unless more than kCreditAtRest is owed. So after the last wave its memory goes back soon;
// what is needed again after a short rest is held; and waves with longer rests between them still
// cost no more than that and one wave.
#pragma once

#include "pages/reuse_gaps.h"
#include "release/break_patience.h"

namespace llamalloc {

// Processor time: of a fetch of 2 MiB, and of the process in all, without the work on the heap.
struct FetchWork {
  Nanos fetch{250'000};
  Nanos used{};
};

class HoldTime {
 public:
  static constexpr double kShare = 1.0 / 1000;     // of the time
  static constexpr double kFetchSeconds = 250e-6;  // of 2 MiB: discard, fault, zeroes
  static constexpr double kFade = 20;              // seconds over which gaps count
  static constexpr int kMostDoublings = 2;
  static constexpr int kMostInDebt = 5;
  static constexpr double kShareOfWork = 1.0 / 40;
  static constexpr double kCredit = 0.4;  // seconds
  static constexpr double kMostDebt = 5;  // so that it is paid off some time
  static constexpr double kRest = BreakPatience::kRest;
  static constexpr double kCreditAtRest = BreakPatience::kCreditAtRest;

  // The hold from now on.
  Nanos step(Nanos now, const ReuseGaps& gaps, Nanos least, size_t most_extra = SIZE_MAX,
             const FetchWork& work = {});
  // Share of the time that fetching takes at such a hold, by the gaps of late.
  double share_at(Nanos hold) const;
  // Bytes that such a hold keeps on average, of what was needed again.
  double kept_at(Nanos hold) const;
  double debt() const { return debt_; }  // seconds
  // Whether all is held, whatever it keeps.
  bool holds_all() const { return in_debt_ && !at_rest_; }

 private:
  double look(Nanos now, const ReuseGaps& gaps);
  void look_at_rest(Nanos now, double worked);
  void owe(double fetched, Nanos price, double worked);
  Nanos chosen(Nanos least, size_t most_extra) const;

  Nanos last_{};
  Nanos hold_{};
  Nanos used_{};
  Nanos price_ = FetchWork().fetch;
  double lately_ = 0;  // bytes fetched
  double debt_ = 0;    // seconds
  bool in_debt_ = false;
  bool at_rest_ = false;
  uint64_t seen_[ReuseGaps::kBuckets] = {};
  double rates_[ReuseGaps::kBuckets] = {};  // bytes a second
};

}  // namespace llamalloc
