// SPDX-License-Identifier: Apache-2.0
// Whether objects are placed by lifetime: only where that has something to gain, and does.
//
//   blind --(three seconds of a trough in which placement would save much)----------> on trial:
//     ^       from the next start on; in this run when the load came back and it is     |
//     |       so in a later trough, too; at once, if a model brings the proof           |
//     |--(a trial: a trough in which it does not save a 20th of the peak, and a --------+
//     |   tenth of what is pinned without it; of a first one half of that is enough     |
//     |   for another; or, before the first trough, high load at which it costs much)   |
//     |--(later: 4 points, a round in a trough: 2 if it costs more than blind did, -----+
//     |   which puts it on trial again, 1 if the same, 0 and all forgiven if less, and  |
//     |   then one of the times that it was given up)                                   |
//     |--(predictions do not hold: learning/trust.h; what helps waits for half a minute) -+
//     '--(half a minute: it takes too much processor time) -----------------------------'
//
// Pinned bytes are those of huge pages in use that hold nothing alive, compared by their share of
// the load's peak: at high load, where separate pages cost, and in troughs, where they pay. A round
// is one trough and the high load before it; one in which it goes off says nothing of blind
// placement. Troughs of another depth are not compared, and neither
// are loads with a much lower peak, such as that of a server before its users come. Where these
// come back and placement does not help them, it goes off without a verdict, until the load is
// higher. The rules follow SpiderMonkey's pretenuring.
//
// What placement would save of the pinned bytes: a page goes back if both what died in it and what
// stays in it would have lain elsewhere.
//
//   saved = pinned x share of short-lived contexts in what was allocated
//                  x share of long-lived contexts in what is alive
//
// Contexts that are mixed or not decided count for neither: they lie together with or without
// placement. A few that do nothing but stay count as long-lived (Learner::only_stays). Where
// samples saw the peak, they also tell what died since then in page groups of which little stays;
// it is no more than that. Recorded programs that placement helps reach 0.32 to 0.53 of the peak
// (redis), the others 0.07 at most (clang) in a first run; over six runs most loads that it does
// not help stay below 0.13. A trial costs these up to 27 % of their memory (docs/heap_policy.md).
//
// Processor time (placement/lookup_time.h): a twentieth is what it may take, or 0.3 percent for
// each percent of the peak that troughs pin less. A machine with 4 GiB for each processor costs
// about twice as much for its processors as for its memory, and half of the time is no trough.
//
// No clock, no globals: the worker calls step() whenever it is awake. It decides once a second, and
// when the load rises from a trough: a wave may be over within a second.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/options.h"
#include "base/units.h"
#include "learning/load_cycle.h"

namespace llamalloc {

class ErrorText;

// At one instant.
struct GateFigures {
  size_t held = 0;         // Heap::held_bytes()
  size_t live = 0;         // Heap::live_bytes()
  double short_share = 0;  // of bytes allocated lately: contexts trusted to be short-lived
  double long_share = 0;   // of bytes alive now: contexts known to be long-lived, or seen so
  // Of predictions that failed, as Trust::Figures has them.
  double older = 0, late = 0;
  double parted = 1;  // Learner::Shares, both
  double peak = 0;
  // Of the processor's: what placement takes, or would take, and in the last second; negative: it
  // was too idle to tell (LookupTime).
  double time = 0, time_now = -1;
  bool late_now = true;  // some of the late ones were freed since the last step
};

// fails: placement saved nothing, as measured, or took too much time. mistaken: predictions did not
// hold, which says nothing of what better ones would save.
enum class GateVerdict : uint8_t { untried, on_trial, helps, fails, mistaken };
inline constexpr int kGateVerdicts = 5;

inline constexpr uint32_t kNoFigure = UINT32_MAX;
// Pinned bytes by the peak, per mille; means over rounds.
struct GateWaste {
  uint32_t rounds = 0;        // 0: nothing known
  uint32_t high = kNoFigure;  // at high load; it may have been too short to tell
  uint32_t low = 0;           // in troughs
  uint32_t depth = 0;         // of troughs: live bytes by the peak
  uint32_t ratio = 0;         // in troughs: held by live

  friend bool operator==(const GateWaste&, const GateWaste&) = default;
};

// What goes with the learned state to the next run.
struct GateKept {
  GateVerdict verdict = GateVerdict::untried;
  uint8_t reversals = 0;    // times that it was given up
  GateWaste blind, placed;  // placed.low without a round: as the armed gate expects it, or 0
  uint16_t peak = 0;  // MiB: live bytes of the loads that this was measured under; 0: not known

  bool is_valid() const;  // a file may say anything
  bool was_given_up() const { return verdict >= GateVerdict::fails; }
  // Thirteen numbers joined by commas (contracts/model_format.md). read: none where they are not
  // valid.
  static constexpr size_t kText = 160;
  void write(char* out, size_t room) const;
  static GateKept read(const char* text);
  // What was decided long ago is tried again. Unless it helped, all is measured anew; if `all`, it
  // is even then, without placement first.
  void age(bool all = false);
  friend bool operator==(const GateKept&, const GateKept&) = default;
};

class Gate {
 public:
  static constexpr size_t kMuch = size_t{32} << 20;  // pinned bytes
  static constexpr double kSaves = 0.15;             // of the peak: what a trial has to promise
  static constexpr double kSeen = 0.8;               // of the peak: samples saw it
  static constexpr double kSure = 3;                 // what blind pins, by what placed objects do
  static constexpr double kSparse = 1.45;            // held by live
  static constexpr double kStillEnough = 0.8;        // of kMuch: less is not worth it any more
  static constexpr double kMostLate = 1.0 / 3;       // of the bytes alive, or of those freed
  static constexpr double kAlike = 0.7;              // of a peak: lower loads are not compared,
  static constexpr double kAlikeInCost = 0.5;        // unless a trial costs memory under them
  static constexpr double kMostTime = 1.0 / 20;      // of the processor's, or, if that is more,
  static constexpr double kTimeForMemory = 0.3;      // of what troughs pin less, by the peak;
  static constexpr double kTooDear = 1.25;           // more than so much of that
  static constexpr uint32_t kDearSteps = 30;  // in so many steps is too much to stay on. They end
  // Where placement helps: requests that wait for another server hold what dies soon else.
  static constexpr uint32_t kWrongSteps = 30;
  static constexpr uint32_t kMostCheap = 10;     // when so many came in between that take less
  static constexpr double kCheap = 0.5;          // than this part of it
  static constexpr uint32_t kProofs = 3;         // steps in a trough
  static constexpr uint32_t kMostOfTrough = 30;  // steps of a round
  static constexpr uint32_t kPoints = 4;
  static constexpr uint32_t kTrialPoints = 2;  // one trough, or two of which the first was near
  static constexpr uint32_t kOtherRounds = 8;  // in a row, of lower loads: those are usual now
  static constexpr uint32_t kOtherCosts = 4;   // in a row, of lower loads that it does not help,
  static constexpr double kHigher = 1.25;      // until their peak grows so
  static constexpr uint8_t kMostReversals = 5;
  static constexpr uint32_t kMostLateEnds = 10;            // from then on the pause is no longer
  static constexpr Nanos kLeastStep = Nanos::millis(900);  // sooner calls only look for a rise
  static constexpr Nanos kPatience = Nanos::seconds(600);  // for a trough
  static constexpr Nanos kTopDecay = Nanos::seconds(24 * 3600);
  static constexpr Nanos kBackoff = Nanos::seconds(300);  // after a reversal, doubled for each
  static constexpr size_t kSentence = 240;

  // Kept state that is not valid counts as none.
  explicit Gate(const GateKept& kept = {});

  // Whether objects are to be placed by lifetime from now on.
  // last: the process ends, so it decides however short ago the step before was; not on placement
  // that is on, since what the program frees at its end would count as pinned.
  bool step(Nanos now, const GateFigures& figures, bool last = false);
  bool is_on() const { return on_; }
  // It was switched on in a heap that was filled blind. Nothing that lies there can be moved, so
  // the holes have to be used again, or the heap grows: what will be freed stays among the blind
  // pages, and only what stays for good goes to pages of its own. If this saves, that counts
  // as in any other run. If it costs, placement ends for some time, longer each time. But that is
  // no verdict on a run that places from its start: the next one is on trial all the same.
  bool is_late() const { return on_ && late_; }
  // It saves memory, as measured in the last round that could tell, maybe of another run; or it is
  // on trial, and two thirds of what blind placement pins are known to part.
  bool is_sure() const { return on_ && !late_ && (helps() || parts_most()); }
  // The next start is on trial, as a trough of this run proved.
  bool is_armed() const { return armed_ && !on_ && kept_.verdict == GateVerdict::on_trial; }
  // A trough of this run pinned much, and nothing is known against placement: which contexts there
  // are may decide whether lifetimes separate.
  bool seeks_contexts() const {
    return is_armed() || (half_way_ > 0 && !on_ && kept_.verdict == GateVerdict::untried);
  }
  // Since then the load was high again.
  bool came_back() const { return came_back_; }
  // Off for long: what it placed apart is everybody's.
  bool has_ended() const { return !on_ && (kept_.was_given_up() || late_has_ended()); }
  const GateKept& kept() const { return kept_; }
  // The same with the round that has not ended: what a profile tells.
  GateKept measured() const;
  // Bytes that placement by lifetime saves in troughs of the load that was measured; negative: it
  // costs them. Where it was not tried: what it would save, 0 if nothing tells.
  int64_t saved() const;
  // One sentence on the decision, its figures and what placement saves, measured or foretold,
  // without newline, in at least kSentence bytes. is_kept: the next start knows it.
  void describe(char* out, size_t room, bool is_kept = true) const;

 private:
  struct Mean {
    double sum = 0;
    uint32_t count = 0;
    void add(double value) {
      sum += value;
      ++count;
    }
    double mean() const { return count ? sum / count : 0; }
  };
  struct Round {
    Mean high, low, depth, ratio;
    double peak = 0;      // bytes: what is high by a much lower one does not count
    uint32_t lower = 0;   // steps that were high by a peak below the run's
    bool closed = false;  // what comes until the next high load does not count
    bool spoilt = false;  // blind, but beside what placement left: it says nothing of that
  };

  void collect(LoadPhase phase, const GateFigures& figures);
  bool round_is_over() const;
  // Nothing has shown yet that placement helps, or the last round was against it.
  bool is_on_trial() const { return kept_.verdict == GateVerdict::on_trial; }
  bool helps() const { return kept_.verdict == GateVerdict::helps; }
  bool parts_most() const {
    const bool told = kept_.placed.low != 0 || kept_.placed.rounds != 0;
    return told && kept_.blind.low >= kSure * kept_.placed.low;
  }
  bool is_measured() const {
    return kept_.verdict == GateVerdict::helps && kept_.placed.rounds != 0;
  }
  bool trial_is_seen() const;
  bool trial_is_dear() const;
  GateWaste waste_of_round() const;
  bool is_alike(double part = kAlike) const;
  bool trial_costs(const GateWaste& placed) const;
  bool has_like_depth(const GateWaste& placed) const;
  void note_load();
  void note_other_load(uint32_t points);
  void rest_until(double peak);
  void take_in_blind();
  void start_round(bool closed);
  void note_top(Nanos since);
  bool is_at_top() const;
  bool takes_long(const GateFigures& figures);
  double saved_share() const;
  static double most_time(double saves);
  bool pins_enough(double part) const;
  double separable(const GateFigures& figures) const;
  double savable_of(const GateFigures& figures) const;
  bool is_affordable(const GateFigures& figures) const;
  bool pays(const GateFigures& figures) const;
  bool was_fragmented() const;
  double savable_so_far(const GateFigures& figures) const;
  bool pays_on_average(const GateFigures& figures) const;
  void consider(Nanos now, LoadPhase phase, const GateFigures& figures);
  void arm();
  bool pins_much(const GateFigures& figures) const;
  void note_trough(const GateFigures& figures);
  void engage();
  void verify(Nanos now);
  uint32_t points_of(const GateWaste& placed) const;
  void judge(Nanos now, uint32_t points);
  void give_up(Nanos now, GateVerdict why);
  void end_late(Nanos now);
  bool late_has_ended() const { return late_ends_ != 0 && !late_; }
  void rest_from(Nanos now);
  bool describe_state(ErrorText& text, bool is_kept) const;
  bool describe_trough(ErrorText& text) const;

  GateKept kept_;
  LoadCycle cycle_;
  Round round_;
  double top_ = 0;  // bytes: the highest peak of this run; half a day later it counts little
  bool on_ = false;
  bool late_ = false;           // it began so
  uint32_t late_ends_ = 0;      // times that it ended so, as it cost
  bool failed_before_ = false;  // what was given up had been armed again
  bool started_ = false;
  // From the first trough of this run that pinned much to the peak then; 0: there was none.
  double half_way_ = 0;
  bool armed_ = false;  // a trough of this run proved it
  // Since then the load was high again. The peak alone may sink to it, so it has to be half way.
  bool came_back_ = false;
  bool fail_ = false;  // predictions, at present
  double time_ = 0;    // as GateFigures has it, at present,
  double dear_ = 0;    // and when placement was given up for it; 0: it was not
  // From the first dear step to the last one; since then, and how many of those were cheap.
  struct {
    uint32_t steps = 0, gap = 0, cheap = 0;
  } dear_run_;
  uint32_t wrong_steps_ = 0;  // in a row, in which predictions failed while it was on
  bool was_large_ = false;    // the peak was worth it in this run
  double back_at_ = 0;        // off without a verdict until the peak is so high; 0: it is not
  uint32_t proofs_ = 0;       // steps of this round's troughs
  uint32_t points_ = 0;
  uint32_t other_rounds_ = 0;  // in a row, not alike
  uint32_t other_costs_ = 0;
  GateFigures trough_;  // the last one
  struct {
    double older = 0, late = 0;
  } wrong_;  // when predictions failed last
  Nanos last_{};
  Nanos retry_{};  // not before
  Nanos round_start_{};
};

// The option comes first.
constexpr bool segregates(Segregate option, bool gate_is_on) {
  return option == Segregate::automatic ? gate_is_on : option == Segregate::always;
}

}  // namespace llamalloc
