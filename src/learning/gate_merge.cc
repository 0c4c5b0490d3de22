// SPDX-License-Identifier: Apache-2.0
#include "learning/gate_merge.h"

#include <algorithm>

namespace llamalloc {
namespace {

constexpr uint32_t kManyRounds = 1 << 20;

uint32_t since(const GateWaste& base, const GateWaste& now) {
  return now.rounds > base.rounds ? now.rounds - base.rounds : 1;
}

uint32_t mean(uint32_t a, uint32_t weight_a, uint32_t b, uint32_t weight_b) {
  if (a == kNoFigure || b == kNoFigure) return std::min(a, b);
  const uint64_t sum = uint64_t{a} * weight_a + uint64_t{b} * weight_b;
  return static_cast<uint32_t>(sum / (uint64_t{weight_a} + weight_b));
}

// then, written: as GateBase has them.
GateWaste merge(const GateWaste& then, const GateWaste& mine, const GateWaste& written,
                const GateWaste& theirs) {
  // An estimate (GateKept::placed) is not measured, so it yields to what is.
  if (mine == then || mine == theirs || (mine.rounds == 0 && theirs.rounds != 0)) return theirs;
  const bool is_all_mine = theirs == written && written == then;
  if (is_all_mine || theirs.rounds == 0) return mine;
  const uint32_t a = since(then, mine), b = since(written, theirs);
  return {.rounds = std::min(theirs.rounds + a, kManyRounds),
          .high = mean(mine.high, a, theirs.high, b),
          .low = mean(mine.low, a, theirs.low, b),
          .depth = mean(mine.depth, a, theirs.depth, b),
          .ratio = mean(mine.ratio, a, theirs.ratio, b)};
}

// The load that it was measured under did not come back (Gate::note_load). Where another process
// went on measuring it, it did.
bool forgot(const GateKept& base, const GateKept& now) {
  return now.peak < base.peak;
}

// Such loads are not compared (Gate::is_alike), so neither are they mixed.
bool is_much_lower(const GateKept& one, const GateKept& other) {
  return one.peak != 0 && one.peak < Gate::kAlike * other.peak;
}

// What was measured comes first, and of that the more careful one.
GateVerdict stronger(GateVerdict a, GateVerdict b) {
  constexpr uint8_t kRank[] = {0, 1, 3, 4, 2};
  static_assert(sizeof(kRank) == kGateVerdicts);
  return kRank[static_cast<int>(a)] < kRank[static_cast<int>(b)] ? b : a;
}

// Beside predictions that failed, a measurement that confirms the old verdict is a decision, too.
bool decided(const GateKept& base, const GateKept& one, const GateKept& other) {
  const bool confirmed = other.verdict == GateVerdict::mistaken &&
                         one.placed.rounds != base.placed.rounds && one.placed.rounds != 0;
  return confirmed || one.verdict != base.verdict || one.reversals != base.reversals;
}

}  // namespace

GateKept merge_gates(const GateBase& base, const GateKept& mine, const GateKept& theirs) {
  const GateKept &then = base.own, &written = base.written;
  const bool i_forgot = forgot(then, mine), they_forgot = forgot(written, theirs);
  if (i_forgot && !they_forgot) return theirs == written ? mine : theirs;
  if (they_forgot && !i_forgot) return mine == then ? theirs : mine;
  if (is_much_lower(mine, theirs)) return theirs;
  if (is_much_lower(theirs, mine)) return mine;
  GateKept merged = theirs;
  merged.blind = merge(then.blind, mine.blind, written.blind, theirs.blind);
  merged.placed = merge(then.placed, mine.placed, written.placed, theirs.placed);
  const bool peak_is_mine = theirs.peak == written.peak && written.peak == then.peak;
  if (mine.peak != then.peak)
    merged.peak = peak_is_mine ? mine.peak : std::max(mine.peak, theirs.peak);
  const bool i_decided = decided(then, mine, theirs);
  const bool they_decided = decided(written, theirs, mine);
  if (i_decided && they_decided) merged.verdict = stronger(mine.verdict, theirs.verdict);
  if (i_decided && !they_decided) merged.verdict = mine.verdict;
  if (i_decided)
    merged.reversals = they_decided ? std::max(mine.reversals, theirs.reversals) : mine.reversals;
  return merged.is_valid() ? merged : theirs;
}

}  // namespace llamalloc
