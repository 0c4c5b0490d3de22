// SPDX-License-Identifier: Apache-2.0
#include "engine/learning_steps.h"

#include <cstdio>
#include <cstring>

namespace llamalloc {
namespace {

// Between two looks: the process, or its machine, was stopped, or nothing happened.
constexpr Nanos kPause = Nanos::seconds(4);
// Contexts are explored when placement begins, and then so long of each period.
constexpr Nanos kExploreFirst = Nanos::seconds(20), kExplore = Nanos::seconds(5);
constexpr Nanos kExplorePeriod = Nanos::seconds(60);

}  // namespace

void LearningSteps::sample_if_worth_it(bool others) {
  const size_t held = engine_.heap.held_bytes();
  run.note_size(engine_.options, held);
  shares_ = shares_ || others;
  if (shares_) return engine_.sample_from(0, 0);
  const Profiler& profiler = engine_.profiler;
  run.note_samples(profiler.samples(), engine_.system.now());
  const uint64_t interval = run.interval(engine_.options);
  samples_ = samples_ || profiler.on() || run.wants_samples(engine_.options, held);
  if (!samples_) return engine_.sample_from(LearningRun::kLeastHeap, interval);
  if (profiler.on() && profiler.interval() == interval) return;
  engine_.start_sampling(interval, engine_.system.now());
}

void LearningSteps::round(Nanos now) {
  run.round(
      {engine_.profiler, engine_.known_contexts.tree(), engine_.placement.cache(), engine_.system},
      now);
}

// What is seen where the option decides is not the gate's doing, and proves nothing.
void LearningSteps::step_gate(Nanos now, bool last) {
  if (gate_decides()) ask_gate(now, last);
  has_placed_ = has_placed_ || places();
  prepares_ = !last && prepares(now);
  const bool changed = engine_.place_by_lifetime(placing());
  if (engine_.explore(explores(now)) || changed) run.clear_again();
}

Placing LearningSteps::placing() const {
  const Gate& gate = run.gate();
  if (places())
    return gate.is_late()                     ? Placing::late
           : gate_decides() && gate.is_sure() ? Placing::sure
                                              : Placing::all;
  if (prepares_) return Placing::explored;
  return gate_decides() && !gate.has_ended() ? Placing::rests : Placing::given_up;
}

// Before the first trial: it would begin without those contexts that are rare, or never begin,
// since lifetimes do not seem to separate. The next waves show them; where none comes soon, it
// looks again when the load is back. Not with a model, whose predictions are judged meanwhile; and
// after some runs only where there will be a trial.
bool LearningSteps::prepares(Nanos now) {
  const Gate& gate = run.gate();
  const bool wanted = gate.seeks_contexts() && (gate.is_armed() || run.is_early());
  const bool may = gate_decides() && wanted && !has_placed_ && !engine_.foresees &&
                   engine_.known_contexts.tree().is_open();
  if (!may) return false;
  if (sought_.n == 0) sought_ = now;
  if (gate.came_back() && back_.n == 0) back_ = now;
  return back_.n == 0 ? now - sought_ < kExplorePeriod : now - back_ < kExploreFirst;
}

bool LearningSteps::explores(Nanos now) {
  if (!places()) placed_ = {};
  if (prepares_) return true;
  if (!places() || !engine_.known_contexts.tree().is_open()) return false;
  if (placed_.n == 0) placed_ = now;
  const Nanos since = now - placed_;
  return since < kExploreFirst || since.n % kExplorePeriod.n < kExplore.n;
}

void LearningSteps::describe(char* out, size_t room, bool is_kept) const {
  if (gate_decides()) {
    run.gate().describe(out, room, is_kept);
    const size_t length = strlen(out);
    if (prepares_) snprintf(out + length, room - length, "; contexts are explored");
    return;
  }
  snprintf(out, room, "placement by lifetime is %s",
           places() ? "on: segregate:always" : "off: segregate:never");
}

void LearningSteps::ask_gate(Nanos now, bool last) {
  if (now - looked_ >= LearningRun::kRound) {
    if (now - looked_ > kPause) doubtful_ = now + kPause;
    looked_ = now;
    trust_ = engine_.look_at_trust(now);
    if (!last)  // by a thread of the program's, whose own time would be missing
      lookups_.step(engine_.counters.get(Stat::predict_lookup_nanos),
                    engine_.system.processor_time());
    if (now < doubtful_) {
      engine_.trust.forget();
      trust_.older = trust_.late = 0;
    }
  }
  run.step_gate(now,
                {engine_.heap.held_bytes(), engine_.heap.live_bytes(), lookups_.share(),
                 lookups_.share_now()},
                trust_, last);
}

}  // namespace llamalloc
