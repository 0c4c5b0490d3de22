// SPDX-License-Identifier: Apache-2.0
#include "learning/gate.h"

#include <algorithm>
#include <cstdio>

#include "learning/gate_figures.h"

namespace llamalloc {
namespace {

constexpr int kNumbers = 13;  // of GateKept as text
constexpr uint32_t kManyRounds = 1 << 20;
constexpr uint32_t kLikeDepth = 200;       // troughs differ by less
constexpr uint32_t kSameDepth = 50;        // so little: a trough of which some seconds say enough
constexpr uint32_t kClearly = 20;          // a 20th of the waste is a difference,
constexpr uint32_t kLeastDifference = 10;  // but no less than this
constexpr uint32_t kCostAtHigh = 50;       // what placement may cost at high load without a trough
constexpr Nanos kMostStep = Nanos::seconds(60);
constexpr uint32_t kLeastHigh = 10;    // steps
constexpr uint32_t kMostOfTrial = 80;  // what a trial may cost at high load, by the peak,
constexpr uint32_t kTrialPart = 8;     // or this part of what troughs pin without it,
constexpr uint32_t kFewHigh = 5;       // in so many steps

uint32_t distance(uint32_t a, uint32_t b) {
  return a > b ? a - b : b - a;
}

bool predictions_fail(const GateFigures& figures) {
  return figures.older >= Gate::kMostLate || figures.late >= Gate::kMostLate;
}

void take_in(uint32_t* mean, uint32_t value, bool first) {
  if (value == kNoFigure) return;
  *mean = first || *mean == kNoFigure ? value : (*mean + value) / 2;
}

// The newest round weighs a half.
void take_in(GateWaste* mean, const GateWaste& round) {
  const bool first = mean->rounds == 0;
  take_in(&mean->high, round.high, first);
  take_in(&mean->low, round.low, first);
  take_in(&mean->depth, round.depth, first);
  take_in(&mean->ratio, round.ratio, first);
  if (mean->rounds < kManyRounds) ++mean->rounds;
}

// What is not alive may be pinned, so less of it is in troughs that are not as deep.
GateWaste at_depth(uint32_t depth, GateWaste waste) {
  if (depth >= kMille || waste.depth >= kMille) return waste;
  const uint32_t low = waste.low * (kMille - depth) / (kMille - waste.depth);
  waste.low = std::min(low, kMostMille);
  waste.depth = depth;
  return waste;
}

bool is_valid(const GateWaste& waste) {
  const bool high = waste.high <= kMostMille || waste.high == kNoFigure;
  return high && waste.low <= kMostMille && waste.depth <= kMostMille &&
         waste.ratio <= kMostMille && waste.rounds <= kManyRounds;
}

}  // namespace

// ----- Kept state -----

bool GateKept::is_valid() const {
  const bool tried = verdict != GateVerdict::untried;
  return static_cast<int>(verdict) < kGateVerdicts && reversals <= Gate::kMostReversals &&
         llamalloc::is_valid(blind) && llamalloc::is_valid(placed) && (!tried || blind.rounds != 0);
}

void GateKept::write(char* out, size_t room) const {
  snprintf(out, room, "%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u", static_cast<unsigned>(verdict),
           reversals, peak, blind.rounds, blind.high, blind.low, blind.depth, blind.ratio,
           placed.rounds, placed.high, placed.low, placed.depth, placed.ratio);
}

GateKept GateKept::read(const char* text) {
  uint32_t numbers[kNumbers];
  for (int i = 0; i < kNumbers; ++i) {
    const char* begin = text;
    uint64_t number = 0;
    for (; *text >= '0' && *text <= '9' && text - begin < 10; ++text)
      number = number * 10 + static_cast<uint64_t>(*text - '0');
    if (text == begin || number > UINT32_MAX) return {};
    if (*text++ != (i + 1 < kNumbers ? ',' : '\0')) return {};
    numbers[i] = static_cast<uint32_t>(number);
  }
  const auto waste = [&](int at) {
    const uint32_t* part = numbers + at;
    return GateWaste{part[0], part[1], part[2], part[3], part[4]};
  };
  if (numbers[0] >= kGateVerdicts || numbers[1] > Gate::kMostReversals || numbers[2] > UINT16_MAX)
    return {};
  const GateKept kept{static_cast<GateVerdict>(numbers[0]), static_cast<uint8_t>(numbers[1]),
                      waste(3), waste(8), static_cast<uint16_t>(numbers[2])};
  return kept.is_valid() ? kept : GateKept{};
}

void GateKept::age(bool all) {
  reversals /= 2;
  if (verdict == GateVerdict::helps && !all) {
    verdict = GateVerdict::on_trial;
    return;
  }
  verdict = GateVerdict::untried;
  blind = placed = {};
  peak = 0;
}

Gate::Gate(const GateKept& kept) : kept_(kept.is_valid() ? kept : GateKept{}) {
  on_ = kept_.verdict == GateVerdict::helps || kept_.verdict == GateVerdict::on_trial;
}

// ----- A step -----

bool Gate::step(Nanos now, const GateFigures& figures, bool last) {
  cycle_.see(figures.live);
  const auto live = static_cast<double>(figures.live);
  if (half_way_ > 0 && live >= half_way_ && live >= LoadCycle::kHigh * cycle_.peak())
    came_back_ = true;
  const bool soon = started_ && now - last_ < kLeastStep;
  if (last ? on_ : soon && !cycle_.rises(figures.live)) return on_;
  if (!started_) {
    round_start_ = now;
    if (kept_.was_given_up()) rest_from(now);
  }
  const Nanos since = started_ ? now - last_ : Nanos{};
  last_ = now;
  started_ = true;
  const LoadPhase phase = cycle_.step(since < kMostStep ? since : kMostStep, figures.live);
  note_top(since);
  collect(phase, figures);
  if (pins_enough(1)) was_large_ = true;
  const bool was_on = on_;
  fail_ = predictions_fail(figures);
  if (fail_) wrong_ = {figures.older, figures.late};
  if (!fail_ || !on_)
    wrong_steps_ = 0;
  else if (wrong_steps_ == 0 || figures.older >= kMostLate || figures.late_now)
    ++wrong_steps_;
  if (wrong_steps_ >= (is_measured() ? kWrongSteps : 1)) {
    give_up(now, GateVerdict::mistaken);
    start_round(cycle_.is_low());
  }
  if (takes_long(figures)) {
    give_up(now, GateVerdict::fails);
    dear_ = time_;
    start_round(cycle_.is_low());
  }
  on_ ? verify(now) : consider(now, phase, figures);
  if (was_on && !on_) round_.spoilt = true;
  return on_;
}

void Gate::collect(LoadPhase phase, const GateFigures& figures) {
  if (cycle_.peak() <= 0) return;
  const double share = static_cast<double>(pinned_of(figures)) / cycle_.peak();
  if (phase == LoadPhase::trough) trough_ = figures;
  if (round_.closed) {
    if (!cycle_.is_low()) start_round(false);
  } else if (phase == LoadPhase::high) {
    if (kAlike * cycle_.peak() > round_.peak) round_.high = {}, round_.peak = cycle_.peak();
    if (on_ && !is_at_top())
      ++round_.lower;
    else if (cycle_.peak() >= kAlike * round_.peak)
      round_.high.add(share);
  } else if (phase == LoadPhase::trough) {
    round_.low.add(share);
    round_.depth.add(static_cast<double>(figures.live) / cycle_.peak());
    round_.ratio.add(ratio_of(figures.held, figures.live));
  }
}

// The peak is forgotten within minutes, so a load that falls slowly has no trough, and what is
// pinned grows by it, with placement and without.
void Gate::note_top(Nanos since) {
  const double day = static_cast<double>(kTopDecay.n);
  const double kept = std::clamp(1 - static_cast<double>(since.n) / day, 0.0, 1.0);
  top_ = std::max(top_ * kept, cycle_.peak());
}

bool Gate::is_at_top() const {
  return cycle_.peak() >= LoadCycle::kHigh * top_;
}

void Gate::start_round(bool closed) {
  round_ = {};
  round_.closed = closed;
  round_start_ = last_;
}

GateWaste Gate::waste_of_round() const {
  return {.rounds = 1,
          .high = round_.high.count ? mille(round_.high.mean()) : kNoFigure,
          .low = mille(round_.low.mean()),
          .depth = mille(round_.depth.mean()),
          .ratio = mille(round_.ratio.mean())};
}

// Whether it is on, and has been for too long. A start may allocate much. But a load in waves does
// not end when it frees what the last wave allocated.
bool Gate::takes_long(const GateFigures& figures) {
  time_ = figures.time;
  const double most = kTooDear * most_time(saved_share());
  const bool idle = figures.time_now < 0, cheap = !idle && figures.time_now < kCheap * most;
  if (!on_ || time_ <= most) {
    dear_run_ = {};
  } else if (!idle && !cheap) {
    dear_run_.steps += 1 + std::min(dear_run_.gap, kMostCheap);
    dear_run_.gap = dear_run_.cheap = 0;
  } else if (dear_run_.steps != 0) {
    ++dear_run_.gap;
    dear_run_.cheap += cheap;
    if (dear_run_.cheap == kMostCheap) dear_run_ = {};
  }
  return dear_run_.steps >= kDearSteps;
}

// By the peak. What was measured under a higher load is not saved under this one.
double Gate::saved_share() const {
  const double peak = std::max(cycle_.peak(), static_cast<double>(kept_.peak) * kMiB);
  return peak > 0 ? static_cast<double>(saved()) / peak : 0;
}

// saves: by the peak, in troughs.
double Gate::most_time(double saves) {
  return std::max(kMostTime, kTimeForMemory * saves);
}

// The trough has ended, or lasted long enough.
bool Gate::round_is_over() const {
  return !round_.closed && round_.low.count >= kProofs &&
         (!cycle_.is_low() || round_.low.count >= kMostOfTrough);
}

// ----- Blind -----

bool Gate::is_alike(double part) const {
  return cycle_.peak() >= part * static_cast<double>(kept_.peak) * kMiB;
}

// What was seen under a load that does not come back is forgotten. But not that placement helped:
// until that is old (GateKept::age), it waits for the load.
void Gate::note_load() {
  other_rounds_ = is_alike() ? 0 : other_rounds_ + 1;
  if (other_rounds_ < kOtherRounds || kept_.verdict == GateVerdict::helps) return;
  other_rounds_ = 0;
  kept_.blind = kept_.placed = {};
  kept_.peak = 0;
  armed_ = came_back_ = false;
  half_way_ = 0;
  if (kept_.verdict != GateVerdict::on_trial) return;
  kept_.verdict = GateVerdict::untried;
  on_ = was_large_ = false;
  back_at_ = 0;
  proofs_ = points_ = 0;
}

void Gate::note_other_load(uint32_t points) {
  other_costs_ = points == 0 ? 0 : other_costs_ + 1;
  if (other_costs_ < kOtherCosts) return;
  rest_until(kHigher * cycle_.peak());
}

// Meanwhile little is placed blind, beside what the load holds when it is higher.
void Gate::rest_until(double peak) {
  on_ = was_large_ = false;
  other_costs_ = 0;
  back_at_ = peak;
}

// What was seen under a much lower load is forgotten when the load grows.
void Gate::take_in_blind() {
  if (!is_alike() || round_.spoilt) return;
  const double peak = cycle_.peak() / kMiB;
  const bool grew = kept_.peak < UINT16_MAX && kAlike * peak > static_cast<double>(kept_.peak);
  if (grew && kept_.peak != 0) kept_.blind = {};
  take_in(&kept_.blind, waste_of_round());
  const auto most = static_cast<double>(UINT16_MAX);
  if (peak > kept_.peak)
    kept_.peak = static_cast<uint16_t>(peak < 1 ? 1 : peak < most ? peak : most);
}

GateKept Gate::measured() const {
  Gate copy = *this;
  if (copy.round_.low.count >= kProofs && !copy.on_) copy.take_in_blind();
  return copy.kept_;
}

// What blind placement pins in the troughs of such a load.
bool Gate::pins_enough(double part) const {
  return cycle_.peak() * kept_.blind.low >= part * static_cast<double>(kMuch) * kMille;
}

// Of the pinned bytes: what placement would not pin.
double Gate::separable(const GateFigures& figures) const {
  const double both = figures.short_share * figures.long_share;
  const bool seen = figures.peak >= kSeen * cycle_.peak();
  return seen && figures.parted < both ? figures.parted : both;
}

double Gate::savable_of(const GateFigures& figures) const {
  return static_cast<double>(pinned_of(figures)) * separable(figures);
}

bool Gate::pays(const GateFigures& figures) const {
  return is_fragmented(figures) && savable_of(figures) >= kSaves * cycle_.peak();
}

// On average in this round's trough so far. Meanwhile its memory may have gone back, in pieces.
bool Gate::was_fragmented() const {
  return is_fragmented(round_.low.mean() * cycle_.peak(), round_.depth.mean() * cycle_.peak());
}

// By the peak: what placement would have saved in it.
double Gate::savable_so_far(const GateFigures& figures) const {
  return round_.low.mean() * separable(figures);
}

// With this trough's first half minute: later on the peak that it is measured by is forgotten.
bool Gate::pays_on_average(const GateFigures& figures) const {
  GateWaste blind = kept_.blind;
  if (round_.low.count != 0) take_in(&blind, waste_of_round());
  return blind.low * separable(figures) >= kSaves * kMille;
}

bool Gate::is_affordable(const GateFigures& figures) const {
  if (cycle_.peak() <= 0) return false;
  const double now = savable_of(figures) / cycle_.peak();
  return time_ <= most_time(std::max({now, savable_so_far(figures), saved_share()}));
}

void Gate::consider(Nanos now, LoadPhase phase, const GateFigures& figures) {
  if (phase == LoadPhase::trough)
    proofs_ = is_fragmented(figures) ? proofs_ + 1 : was_fragmented() ? proofs_ : 0;
  const bool may =
      kept_.reversals < kMostReversals && now >= retry_ && !fail_ && is_affordable(figures);
  if (may && phase == LoadPhase::trough && proofs_ >= kProofs) note_trough(figures);
  const bool back = back_at_ > 0 && cycle_.peak() >= back_at_;
  const bool known = kept_.verdict == GateVerdict::helps && pins_enough(1);
  const bool measured = kept_.blind.rounds != 0 || (round_.low.count != 0 && !round_.spoilt);
  const bool paid = was_fragmented() && savable_so_far(figures) >= kSaves;
  const bool proven = measured && phase == LoadPhase::trough && proofs_ >= kProofs &&
                      (pays(figures) || paid) && pays_on_average(figures);
  const bool fits = kept_.verdict == GateVerdict::untried || is_alike();
  if (may && back) {
    on_ = true;
    back_at_ = 0;
    return start_round(cycle_.is_low());
  }
  if (may && fits && (known || (proven && armed_ && came_back_ && pins_enough(1)))) return engage();
  if (may && fits && proven && !armed_) return arm();
  if (!round_is_over()) return;
  if (!cycle_.is_low()) proofs_ = 0;
  if (!round_.spoilt) note_load();  // what it forgets has to be measured anew at once
  take_in_blind();
  start_round(cycle_.is_low());
}

// The next start is on trial. This run is not: it would have to fill pages of its own beside those
// that blind placement left, and if the load does not come back, nothing repays them.
void Gate::arm() {
  if (round_.low.count != 0) take_in_blind();
  failed_before_ = failed_before_ || kept_.was_given_up();
  if (kept_.verdict != GateVerdict::helps) kept_.verdict = GateVerdict::on_trial;
  if (kept_.placed.rounds == 0)
    kept_.placed.low = std::max(1u, mille(kept_.blind.low * (1 - separable(trough_)) / kMille));
  if (!armed_) came_back_ = false;
  armed_ = true;
  proofs_ = points_ = 0;
  start_round(cycle_.is_low());
}

bool Gate::pins_much(const GateFigures& figures) const {
  return static_cast<double>(pinned_of(figures)) >= kSaves * cycle_.peak();
}

void Gate::note_trough(const GateFigures& figures) {
  const bool much = pins_much(figures) || round_.low.mean() >= kSaves;
  if (!much || half_way_ > 0) return;
  half_way_ = (static_cast<double>(figures.live) + cycle_.peak()) / 2;
}

// The rest of this trough says what blind placement left.
void Gate::engage() {
  arm();
  on_ = late_ = true;
  back_at_ = 0;
}

// ----- On -----

void Gate::verify(Nanos now) {
  if (was_large_ && !pins_enough(kStillEnough)) {
    rest_until(static_cast<double>(kMuch) * kMille / (kept_.blind.low ? kept_.blind.low : 1));
    return start_round(cycle_.is_low());
  }
  const bool is_dear = trial_is_dear();
  const bool has_high = round_.high.count >= kLeastHigh || is_dear;
  const bool ends = has_high || (is_on_trial() && !round_.closed);
  const bool waited = now - round_start_ > kPatience && ends;
  if (!round_is_over() && !waited && !trial_is_seen() && !is_dear) return;
  GateWaste placed = waste_of_round();
  const bool has_trough = round_.low.count >= kProofs;
  if (!has_trough) placed.depth = kNoFigure;
  if (has_trough && has_like_depth(placed)) placed = at_depth(kept_.blind.depth, placed);
  if (!has_trough && !has_high) placed.high = kNoFigure;
  if (has_trough) note_load();
  const uint32_t points = points_of(placed);
  const bool other_depth = has_trough && points == kNoFigure;
  const bool alike = is_alike() || (points == 2 && trial_costs(placed));
  if (on_ && alike && !(other_depth && is_on_trial())) {
    other_costs_ = 0;
    const bool was_late = late_;
    judge(now, points);
    const bool helps = kept_.verdict == GateVerdict::helps;
    if (has_trough && !other_depth && (helps || !was_late)) take_in(&kept_.placed, placed);
  } else if (on_ && (has_trough || is_on_trial())) {
    note_other_load(points);
  }
  const bool was_high = has_high || round_.lower >= kLeastHigh;
  const bool comparable = has_trough || (was_high && kept_.blind.high != kNoFigure);
  if (on_ && is_on_trial() && is_alike() && !comparable) rest_until(kHigher * cycle_.peak());
  start_round(cycle_.is_low());
}

// Before its trough is over: what a trial costs, it costs when the load comes back.
bool Gate::trial_is_seen() const {
  return is_on_trial() && !late_ && !round_.closed && round_.low.count >= kProofs &&
         distance(mille(round_.depth.mean()), kept_.blind.depth) <= kSameDepth;
}

// So much more than blind placement is pinned at high load that its first trough is not awaited.
bool Gate::trial_is_dear() const {
  const bool first = is_on_trial() && !late_ && is_alike() && kept_.placed.rounds == 0;
  const bool waits = first && round_.low.count == 0;
  const GateWaste& blind = kept_.blind;
  return waits && round_.high.count >= kFewHigh && blind.high != kNoFigure &&
         mille(round_.high.mean()) > blind.high + std::max(kMostOfTrial, blind.low / kTrialPart);
}

// The memory that separate pages take at any load is small beside half of the usual one.
bool Gate::trial_costs(const GateWaste& placed) const {
  const uint32_t blind = kept_.blind.low;
  return is_on_trial() && !late_ && has_like_depth(placed) && is_alike(kAlikeInCost) &&
         placed.low > blind + gain_asked(blind);
}

bool Gate::has_like_depth(const GateWaste& placed) const {
  return placed.depth != kNoFigure && distance(placed.depth, kept_.blind.depth) <= kLikeDepth;
}

// 0: better than blind. kNoFigure: nothing to compare with.
uint32_t Gate::points_of(const GateWaste& placed) const {
  const GateWaste& blind = kept_.blind;
  const bool highs = placed.high != kNoFigure && blind.high != kNoFigure;
  if (!has_like_depth(placed))
    return highs && placed.high > blind.high + kCostAtHigh ? 2 : kNoFigure;
  const uint32_t with = placed.low + (highs ? placed.high : 0);
  const uint32_t without = blind.low + (highs ? blind.high : 0);
  const uint32_t share = without / kClearly;
  const uint32_t tolerance = share > kLeastDifference ? share : kLeastDifference;
  const uint32_t gain = is_on_trial() ? gain_asked(without) : tolerance;
  if (with + gain < without) return 0;
  if (!is_on_trial() || late_) return with > without + tolerance ? 2 : 1;
  const bool nearly = with + gain / 2 < without;
  return nearly && kept_.placed.rounds == 0 ? 1 : 2;
}

// What helped is in doubt after a round that cost more: the next one, maybe of another run,
// decides.
void Gate::judge(Nanos now, uint32_t points) {
  if (points == kNoFigure || (late_ && points == 1)) return;
  const uint32_t enough = is_on_trial() && !late_ ? kTrialPoints : kPoints;
  points_ = points == 0 ? 0 : points_ + points;
  if (points == 0) {
    if (kept_.verdict == GateVerdict::helps && kept_.reversals != 0) --kept_.reversals;
    kept_.verdict = GateVerdict::helps;
  }
  if (points == 2 && kept_.verdict == GateVerdict::helps) kept_.verdict = GateVerdict::on_trial;
  if (points_ < enough) return;
  late_ && !failed_before_ ? end_late(now) : give_up(now, GateVerdict::fails);
}

// The next start is on trial.
void Gate::end_late(Nanos now) {
  kept_.verdict = GateVerdict::on_trial;
  on_ = late_ = false;
  points_ = proofs_ = 0;
  late_ends_ = std::min(late_ends_ + 1, kMostLateEnds);
  retry_ = now + Nanos{kBackoff.n << late_ends_};
}

void Gate::give_up(Nanos now, GateVerdict why) {
  on_ = false;
  back_at_ = 0;
  dear_ = 0;
  dear_run_ = {};
  kept_.verdict = why;
  if (kept_.reversals < kMostReversals) ++kept_.reversals;
  points_ = proofs_ = 0;
  rest_from(now);
}

void Gate::rest_from(Nanos now) {
  retry_ = now + Nanos{kBackoff.n << kept_.reversals};
}

int64_t Gate::saved() const {
  const GateWaste& placed = kept_.placed;
  const bool is_known = placed.rounds != 0 || (placed.low != 0 && is_on_trial());
  if (!is_known || kept_.blind.rounds == 0) return 0;
  const int64_t difference = int64_t{kept_.blind.low} - int64_t{placed.low};
  const double kept = kept_.peak * kMiB;  // the largest ones are cut off
  const bool is_whole = kept_.peak != 0 && kept_.peak != UINT16_MAX;
  const double peak = is_whole ? kept : std::max(kept, cycle_.peak());
  return static_cast<int64_t>(peak) / kMille * difference;
}

}  // namespace llamalloc
