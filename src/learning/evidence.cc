// SPDX-License-Identifier: Apache-2.0
#include "learning/evidence.h"

#include "heap/heap.h"

namespace llamalloc {
namespace {

constexpr double kMost = 0.5;
constexpr double kNearlyAll = 0.95;
constexpr double kFewDied = 0.1;

// f(a count, the other's same count) for each.
template <typename F>
void for_each_count(Evidence& evidence, const Evidence& other, F&& f) {
  for (int c = 0; c < kTimedClasses; ++c) {
    f(evidence.deaths[c], other.deaths[c]);
    f(evidence.young[c], other.young[c]);
  }
  f(evidence.elders, other.elders);
}

struct Survival {
  double after[kTimedClasses];
  int last = 0;  // the longest class in which a sample was seen
  double plateau() const { return after[kTimedClasses - 1]; }
  // Nearly all outlive the last bound in time, and enough have. How long the others lived is no
  // matter then: no class lies above.
  bool outlives_all_bounds(const Evidence& evidence) const {
    constexpr int kLast = kTimedClasses - 1;
    return after[kLast - 1] >= kNearlyAll &&
           uint32_t{evidence.deaths[kLast]} + evidence.young[kLast] >= kEnoughLong;
  }
  // The first class that at most this share outlives; kTimedClasses: none.
  int quantile(double outliving) const {
    int c = 0;
    while (c < kTimedClasses && after[c] > outliving) ++c;
    return c;
  }
};

Survival survival_of(const Evidence& evidence) {
  Survival curve;
  double at_risk = static_cast<double>(evidence.samples());
  double alive = 1;
  for (int c = 0; c < kTimedClasses; ++c) {
    if (evidence.deaths[c] != 0) alive *= 1 - evidence.deaths[c] / at_risk;
    if (evidence.deaths[c] != 0 || evidence.young[c] != 0) curve.last = c;
    at_risk -= static_cast<double>(evidence.deaths[c]) + evidence.young[c];
    curve.after[c] = alive;
  }
  return curve;
}

// Most objects die, nearly all of those before permanent pages would pay; some stay. `most` is the
// share of those that stay from which it is no trap.
bool is_trap(LifetimeClass chosen, const Survival& curve, double most) {
  if (group_of(chosen) != PageGroup::permanent || curve.plateau() >= most) return false;
  const int early = curve.quantile(curve.plateau() + (1 - kNearlyAll) * (1 - curve.plateau()));
  return early < kTimedClasses &&
         group_of(static_cast<LifetimeClass>(early)) != PageGroup::permanent;
}

// How many classes the oldest is above the longest life that was seen; 0: none has lived long.
int gap(const Evidence& evidence) {
  int oldest = kTimedClasses - 1, longest = kTimedClasses - 1;
  while (oldest >= 0 && evidence.young[oldest] == 0) --oldest;
  while (longest >= 0 && evidence.deaths[longest] == 0) --longest;
  if (evidence.elders == 0 || oldest <= longest) return 0;
  return longest < 0 ? kTimedClasses : oldest - longest;
}

// What outlived all deaths stays, and is not merely younger than the longest life: it is two
// classes above. (From le_3s on that may be little more than three times as old.) Where many died,
// a third has to lie between: a busy machine moves a wave of objects up a class or two, and until
// it dies, it looks like this.
constexpr int kStays = 2;
constexpr int kStaysSurely = 3;

}  // namespace

uint32_t Evidence::samples() const {
  uint32_t total = 0;
  for (int c = 0; c < kTimedClasses; ++c) total += uint32_t{deaths[c]} + young[c];
  return total;
}

uint32_t Evidence::died() const {
  uint32_t total = 0;
  for (const uint16_t count : deaths) total += count;
  return total;
}

bool Evidence::add(const Evidence& other) {
  bool fits = true;
  for_each_count(*this, other, [&](uint16_t& mine, uint16_t theirs) {
    fits = fits && uint32_t{mine} + theirs <= UINT16_MAX;
  });
  if (!fits) {
    Evidence half = other;
    half.halve();
    halve();
    add(half);
    return true;
  }
  for_each_count(*this, other, [](uint16_t& mine, uint16_t theirs) {
    mine = static_cast<uint16_t>(mine + theirs);
  });
  return false;
}

void Evidence::take_away(const Evidence& other) {
  for_each_count(*this, other, [](uint16_t& mine, uint16_t theirs) {
    mine = static_cast<uint16_t>(mine - (theirs < mine ? theirs : mine));
  });
}

void Evidence::halve(int times, uint32_t more) {
  for_each_count(*this, *this, [&](uint16_t& mine, uint16_t) {
    mine = static_cast<uint16_t>((mine + more) >> times);
  });
}

Verdict verdict_of(const Evidence& evidence) {
  const uint32_t samples = evidence.samples();
  if (samples < kEnoughLong) return {};
  const Survival curve = survival_of(evidence);
  int c = curve.quantile(kTail);
  if (c == kTimedClasses) {
    const bool in_flight = gap(evidence) < kStays;
    if (in_flight && curve.plateau() >= kMost && !curve.outlives_all_bounds(evidence)) return {};
    c = in_flight ? curve.last : static_cast<int>(LifetimeClass::never);
  }
  const auto chosen = static_cast<LifetimeClass>(c);
  if (group_of(chosen) != PageGroup::permanent && samples < kEnoughShort) return {false, chosen};
  const double most = gap(evidence) < kStaysSurely ? 1 - kFewDied : kMost;
  return {true, is_trap(chosen, curve, most) ? LifetimeClass::mixed : chosen};
}

bool pays_to_tell_apart(LifetimeClass a, LifetimeClass b, uint64_t size) {
  const bool large = size >= kWorthALook && size <= kRunMax;
  return group_of(a) != group_of(b) && (!dies_soon(a) || !dies_soon(b) || large);
}

bool lives_long(const Evidence& evidence) {
  uint32_t soon = 0;
  for (int c = 0; c < kTimedClasses; ++c)
    if (dies_soon(static_cast<LifetimeClass>(c)))
      soon += uint32_t{evidence.deaths[c]} + evidence.young[c];
  const uint32_t samples = evidence.samples();
  return samples - soon >= kEnoughLong && soon <= kFewDied * samples;
}

LifetimeClass longest_seen(const Evidence& evidence) {
  return static_cast<LifetimeClass>(survival_of(evidence).last);
}

bool lives_shorter(const Evidence& before, const Evidence& now) {
  if (now.died() < kEnoughToFade) return false;
  Evidence all = before;
  all.add(now);
  const Verdict of_all = verdict_of(all), recently = verdict_of(now);
  return of_all.decided && recently.decided && recently.lifetime < of_all.lifetime &&
         group_of(recently.lifetime) != group_of(of_all.lifetime);
}

}  // namespace llamalloc
