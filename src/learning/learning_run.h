// SPDX-License-Identifier: Apache-2.0
// What one run of a program learns and decides: rounds of the learner, steps of the gate, and what
// of it goes into the state file. What an engine does with it is in engine/learning_steps.h;
// clocks, threads, locks and files belong to the callers of that.
//
//   take_in(state) --> begin --> round, step_gate: whenever is_round_due, or awake -->
//   add_to(state)
#pragma once

#include "base/options.h"
#include "learning/gate.h"
#include "learning/gate_merge.h"
#include "learning/learned_state.h"
#include "learning/learner.h"
#include "learning/trust.h"
#include "predict/prediction_cache.h"

namespace llamalloc {

class LearningRun {
 public:
  // Bytes between samples while nothing says that placement pays. Each keeps a span and a record:
  // with 512 KiB, loads of 100 MiB take a hundredth more memory. With 1.5 MiB, clang's contexts are
  // not decided in one run.
  static constexpr uint64_t kInterval = uint64_t{1} << 20;
  // A smaller heap has too little to gain to pay for samples.
  static constexpr size_t kLeastHeap = 2 * Gate::kMuch;
  static constexpr Nanos kRound = Nanos::seconds(1);
  static constexpr int64_t kShareOfTime = 200;  // a round's time is one over this of all
  static constexpr Nanos kLongestRest = Nanos::seconds(60);  // the process may have stood still
  static constexpr uint64_t kMostSamples = 4000;             // a second: 1 % of a processor
  static constexpr int kMostCoarser = 6;
  static constexpr Nanos kFirsts = Nanos::seconds(5);  // between looks at contexts nobody knows
  static constexpr Nanos kFirstSave = Nanos::seconds(10);
  static constexpr Nanos kSave = Nanos::seconds(60);
  static constexpr size_t kMostKept = 10'800;  // each may name a frame
  static_assert(kMostKept <= Learner::kMostNodes / 2);
  static_assert(learned_bytes(kMostKept, kMostKept) <= kMaxLearnedBytes);
  static constexpr uint32_t kEarlyRuns = 3;
  static constexpr double kEnoughKnown = 0.5;        // of what the last runs saw
  static constexpr uint32_t kRunsUntilRetrial = 32;  // what the gate decided is then tried again

  // What a round reads and writes. system: its clock, and memory for the time of the round.
  struct Tables {
    Profiler& profiler;
    ContextTree& tree;
    PredictionCache& cache;
    PageSource& system;
  };

  // False: no memory.
  bool open(MetadataArena& arena) { return learner_.open(arena); }
  void begin(Nanos now) { began_ = now; }

  // What the gate in a file is worth: it is of this build, so that its figures are true here; of
  // another one, of which most is known here, so that what helped is on trial; or of neither. A
  // small program may load another build of the library that does all the work: of that little is
  // known, though the program is the same.
  enum class GateFrom { this_build, like_build, none };
  static GateFrom gate_from(ReadStatus status, double known_share) {
    const bool is_known = known_share >= kEnoughKnown;
    if (status == ReadStatus::ok && is_known) return GateFrom::this_build;
    return status == ReadStatus::ok || is_known ? GateFrom::like_build : GateFrom::none;
  }
  // What earlier runs left. The best known contexts are taken: what this run meets needs room, too.
  void take_in(const LearnedState& state, GateFrom gate, ContextTree& tree, PageSource& scratch);

  bool is_round_due(Nanos now) const { return now >= next_round_; }
  void round(const Tables& tables, Nanos now);
  // Whether objects are to be sampled now, unless something else wants it: from then on for good.
  bool wants_samples(const Options& options, size_t held) const {
    const bool asked = Options::current(options.sample_interval) != 0;
    if (options.segregate == Segregate::never && !learner_.is_open()) return asked;  // nobody reads
    const bool places = segregates(options.segregate.value, gate_.is_on());
    return asked || places || held >= kLeastHeap;
  }
  // Few runs of the program are known.
  bool is_early() const { return runs_before_ < kEarlyRuns; }
  // Between samples, from now on: finer where they are known to pay.
  uint64_t interval(const Options& options) const {
    const GateVerdict verdict = gate_.kept().verdict;
    const bool helps = verdict == GateVerdict::on_trial || verdict == GateVerdict::helps;
    const bool pays = segregates(options.segregate.value, helps);
    return options.interval((pays ? Options::kSampleInterval : kInterval) << coarser_);
  }
  // samples: ever. Where there are more than kMostSamples a second, each is to stand for more: one
  // takes some 2 us, and a program that allocates large buffers would be slowed down.
  void note_samples(uint64_t samples, Nanos now);
  // What is cached is dropped with the next round, too: a thread may have published what it had
  // looked up before.
  void clear_again() { changed_before_ = true; }
  // As GateFigures has them.
  struct HeapFigures {
    size_t held, live;
    double time = 0, time_now = -1;
  };
  // Whether the gate is open.
  bool step_gate(Nanos now, const HeapFigures& heap, const Trust::Figures& trust,
                 bool last = false);
  // A run counts in the file, and ages what is there, if it could decide something: once its heap
  // held kLeastHeap, or where the option asks for samples.
  void note_size(const Options& options, size_t held) {
    counts_ = counts_ || held >= kLeastHeap || Options::current(options.sample_interval) != 0;
  }
  // What the model's training proved of placement (contracts/model_format.md). What the process
  // measured itself comes first.
  void take_evidence(const GateKept& of_model);

  // As LearnedHeader has them.
  struct Build {
    uint64_t program = 0, modules = 0;
    double known = 1;  // share of the file's last runs that is known here
  };
  // Adds to *file what this run saw since note_saved, and counts the run there. status: as the file
  // was read just now; if it was not usable, *file has a new header. False: no memory.
  bool add_to(LearnedState* file, ReadStatus status, const Build& build, PageSource& scratch);
  // Then: the frames of its nodes, of which those of this run have been looked at. False: no
  // memory.
  bool keep_frames_of(LearnedState* file, PageSource& scratch) const;
  // Those that were not yet. It takes a while in a large program: not under the file's lock.
  bool look_at_frames(const StackTable& stacks, LoadedFunctions& functions, PageSource& pages);
  // What add_to gave was written.
  void note_saved();
  // Whether add_to would add something. Deaths count, and what the gate decided: objects may die
  // long after the last one was sampled.
  bool has_news() const;
  // Whether a file holds something of this program. A program that has allocated little makes none:
  // it could decide nothing, and the shell that starts a server must not claim the server's file.
  bool has_file() const { return has_file_; }

  // A forked child adds what it sees itself.
  void fork_at(Nanos now);

  Learner& learner() { return learner_; }
  const Gate& gate() const { return gate_; }

 private:
  enum class Part { saved, steady };
  bool keeps_gate() const;
  void add_gate_to(LearnedHeader* header, ReadStatus status, const Build& build) const;
  bool is_to_be_counted(const LearnedHeader& header) const;
  bool wants_firsts(const Profiler& profiler, Nanos now);
  void fade(std::span<LearnedNode> nodes) const;
  bool collect(Part part, PageSource& scratch, NodeArray* out) const;

  Learner learner_;
  SeenFrames seen_;
  Gate gate_;
  GateBase gate_then_;     // when the file was last read or written
  GateKept gate_written_;  // by add_to
  GateKept given_;         // by a model: nothing was measured yet
  GateFrom gate_from_ = GateFrom::none;
  Nanos began_{};
  Nanos next_round_{};
  bool changed_before_ = false;
  bool forked_ = false;   // since the last round
  uint64_t firsts_ = 0;   // Profiler::firsts when the cache was last cleared for them
  uint64_t counted_ = 0;  // samples
  Nanos counted_at_{};
  int coarser_ = 0;  // the interval is doubled so often
  Nanos looked_for_firsts_{};
  uint32_t runs_before_ = 0;  // in the file when it was read
  bool is_aged_ = false;      // the gate, since the file was read
  bool counts_ = false;
  bool wrote_ = false;  // this run is counted in the file
  bool has_file_ = false;
};

}  // namespace llamalloc
