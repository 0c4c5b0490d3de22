// SPDX-License-Identifier: Apache-2.0
// What the gate says of its decision: the sentence of the statistics.
#include "learning/gate_figures.h"
#include "predict/error_text.h"

namespace llamalloc {

// What was decided. False: nothing was, and it says what placement would save.
bool Gate::describe_state(ErrorText& text, bool is_kept) const {
  const bool helps = kept_.verdict == GateVerdict::helps;
  const char* what = "on";
  const char* then = helps ? "" : " trial";
  if (!on_ && fail_) {
    text.add(
        "off: predictions do not hold; %u %% of the bytes alive are older, %u %% of those "
        "freed lived longer",
        percent(wrong_.older), percent(wrong_.late));
    return true;
  }
  if (kept_.was_given_up()) {
    text.add("off%s: given up %u times, as ", kept_.reversals == kMostReversals ? " for good" : "",
             kept_.reversals);
    if (dear_ > 0) {
      text.add("it took %u %% of the processor time", percent(dear_));
      return true;
    }
    what = kept_.verdict == GateVerdict::fails ? "it did not pay" : "predictions failed";
    then = "";
  } else if (!on_ && kept_.verdict == GateVerdict::untried) {
    if (trough_.held != 0) return describe_trough(text);
    what = "off: no trough of the load was seen";
    then = "";
  } else if (!on_) {
    what = is_kept && !helps ? "off until the next start, or until " : "off until ";
    then = helps              ? "the load is higher"
           : late_has_ended() ? "it is tried again"
                              : "the load has come back";
  } else if (late_ && !helps) {
    what = "on for what lives long";
    then = is_kept ? ", and from the next start on for all" : "";
  }
  text.add("%s%s", what, then);
  return true;
}

// Always false.
bool Gate::describe_trough(ErrorText& text) const {
  const size_t pinned = pinned_of(trough_);
  const bool much = is_fragmented(trough_) && pins_much(trough_);
  if (much && pays(trough_) && !is_affordable(trough_)) {
    text.add("off: it would take %u %% of the processor time, and save %lld MiB in troughs",
             percent(time_), static_cast<long long>(savable_of(trough_) / kMiB));
    return false;
  }
  const char* why = !much            ? "troughs pin little"
                    : !pays(trough_) ? "lifetimes do not separate"
                                     : "it has just begun to pay";
  const uint32_t ratio = percent(ratio_of(trough_.held, trough_.live));
  text.add(
      "off: %s (pinned in the last trough %zu MiB, of which it would save %lld MiB; held/live "
      "%u.%02u; short-lived %u %% of bytes allocated, long-lived %u %% of bytes alive)",
      why, pinned >> 20, static_cast<long long>(savable_of(trough_) / kMiB), ratio / 100,
      ratio % 100, percent(trough_.short_share), percent(trough_.long_share));
  return false;
}

void Gate::describe(char* out, size_t room, bool is_kept) const {
  ErrorText text(out, room);
  text.add("placement by lifetime is ");
  if (!describe_state(text, is_kept)) return;
  const GateWaste &blind = kept_.blind, &placed = kept_.placed;
  const auto pins = [&](const char* when, uint32_t with, uint32_t without) {
    text.add("; %s %u %% of the peak, %u %% without it", when, with / 10, without / 10);
  };
  const auto saves = static_cast<long long>(saved() / static_cast<int64_t>(kMiB));
  const char* troughs = "troughs pin";
  const bool is_little = placed.low + gain_asked(blind.low) >= blind.low;
  const bool saves_little = kept_.verdict == GateVerdict::fails && is_little;
  const char* how = saves < 0 ? "costs" : saves_little ? "saves only" : "saves";
  if (placed.rounds == 0) {
    if (!is_on_trial() || placed.low == 0) return text.add("; what it saves is not known");
    if (on_ && round_.high.count != 0 && blind.high != kNoFigure)
      pins("high load so far pins", mille(round_.high.mean()), blind.high);
    troughs = "troughs would pin";
    how = "would save";
  }
  const bool costs_high = kept_.verdict == GateVerdict::fails && blind.high != kNoFigure &&
                          placed.high != kNoFigure && placed.high > blind.high;
  if (costs_high) pins("high load pins", placed.high, blind.high);
  pins(troughs, placed.low, blind.low);
  text.add("; it %s %lld MiB", how, saves < 0 ? -saves : saves);
}

}  // namespace llamalloc
