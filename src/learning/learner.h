// SPDX-License-Identifier: Apache-2.0
// From sampled lifetimes to what is known of contexts: the tree that allocations ask
// (predict/context_tree.h). The worker runs a round about once a second.
//
//   profiler: deaths and ages of each stack and size
//     --> nodes: summed from the site outward, no deeper than contexts differ
//     --> a verdict for each node; one that shortens waits until it was seen twice
//     --> the tree
//
// A node is looked into (its callers told apart) unless all of its objects die young: then none of
// its contexts can hold anything that stays. Where its parts agree, or it does not pay to tell them
// apart (evidence.h), it speaks for them, but not for a part that is not decided yet and seems to
// live long where others die within seconds; stacks that end there, where others go on, are a part,
// too. What earlier runs learned is the prior of each node; what this run adds is kept apart, for
// the state file. A whole whose prior lives longer than its parts of this run speaks for itself:
// earlier runs may have met others.
//
// Counts that do not fit are halved until they do, and a node counts all of its contexts at one
// scale. So a rare long life stays as rare as it is, whichever context has it.
//
// What is merely in flight undoes nothing: a context that was decided, and of which most samples
// are alive now, keeps its class, or gets that of the oldest sample, if this is longer. Else a
// first fill that takes longer than in earlier runs would lie among unknown objects.
//
// The first objects of a context are sampled beyond their share (Engine::may_sample_first), so that
// contexts of few bytes are seen, too. They count while a context has few other samples: more of
// those say it better, since each stands for many objects.
//
// A program may change. Where several windows of time in a row say that objects live shorter than
// before, what is older counts half with each of them: deaths of this run, prior, and the file.
// A window in which little died is joined to the next one.
#pragma once

#include "learning/evidence.h"
#include "learning/stay_prior.h"
#include "os/arena.h"
#include "predict/context_tree.h"
#include "profile/profiler.h"

namespace llamalloc {

struct LearnerRow;
struct LearnerRows;

class Learner {
 public:
  static constexpr uint32_t kMostNodes = ContextTree::kMostNodes;
  static constexpr int kMostLevels = 24;

  struct Node {
    uint64_t key;
    uint64_t word;    // by which it extends its parent's key; valid if met
    Evidence prior;   // of earlier runs and other processes
    Evidence now;     // of this run, up to the last round
    Evidence steady;  // the same before live memory fell, as it does when a program ends
    Evidence saved;   // what the state file holds of this run
    uint32_t parent;
    uint32_t contexts;             // in this run
    uint16_t past[kTimedClasses];  // deaths in `now` when this window of time began
    uint8_t past_halved;           // as `halved` was then
    uint8_t halved;                // `now` is divided by two to this
    uint8_t level;
    uint8_t shown;             // in the tree: kNothing, or the class and kDeeper
    uint8_t shorter;           // rounds that agreed on a shorter class
    uint8_t agreed;            // windows of time that agreed that the prior is out of date
    uint8_t fades;             // so often it was halved since the file was written
    LifetimeClass heard;       // of its parts; valid if parts_decided
    bool met : 1;              // in this run
    bool split : 1;            // its parts are told apart
    bool deeper : 1;           // and differ
    bool differed : 1;         // as this run sees it
    bool known_to_differ : 1;  // by earlier runs, or the parent process: kept, as not all parts are
                               // met in each run
    bool parts_decided : 1, parts_open : 1;
    bool parts_seem_short : 1, parts_seem_long : 1;  // of those that are open
    bool window_begins : 1;  // with the next round, as deaths of this run were halved
  };
  static_assert(kMostNodes * sizeof(Node) <= size_t{4} << 20);
  static constexpr uint8_t kNothing = 0xff;
  static constexpr uint8_t kDeeper = 0x80;

  // By the verdicts on contexts, without what has a mapping of its own and pins nothing.
  struct Shares {
    double short_lived = 0;  // of the bytes allocated: those that die within some seconds
    double long_lived = 0;   // of the bytes alive: those of contexts that live longer than most do
    // Of what died since most was alive: what shared its page group with little that stays.
    // Contexts that fill and empty over and over may hold nothing then, however much they allocate.
    double parted = 1;
    double peak = 0;  // bytes alive then; higher peaks may have been between two rounds
  };

  // False: no memory.
  bool open(MetadataArena& arena);
  bool is_open() const { return nodes_ != nullptr; }

  // Before the first round: what earlier runs know. deeper: the node's parts differed.
  bool take_in(uint64_t key, uint8_t level, bool deeper, const Evidence& evidence);
  // Shows what was taken in.
  void show_all(ContextTree& tree);

  static constexpr Nanos kWindow = Nanos::seconds(20);
  static constexpr uint8_t kWindowsToFade = 3;

  // A forked child: what its parent learned is known, and nothing of it is the child's own. What
  // differed goes on to, at call sites that the child has not sampled yet, too.
  void begin_anew();

  // scratch: for the time of the call. True: the tree says something new of a context.
  bool round(Profiler& profiler, ContextTree& tree, PageSource& scratch, Nanos now, Nanos began);

  uint32_t size() const { return count_; }
  Node& node(uint32_t i) { return nodes_[i]; }
  const Node& node(uint32_t i) const { return nodes_[i]; }
  // Of a node that this run has met: what its key extends (ContextPath::extend).
  uint64_t parent_key(const Node& node) const {
    return node.level == 1 ? ContextPath::kRoot : nodes_[node.parent].key;
  }
  Shares shares() const { return shares_; }
  static constexpr uint32_t kMostContexts = uint32_t{1} << 16;  // later ones are not looked at
  static constexpr uint32_t kContextsFreely = 4096;  // later ones only when they come again
  bool is_consistent() const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kIndexSlots = uint32_t{1} << 16;

  using Row = LearnerRow;
  using Rows = LearnerRows;
  struct Level {
    Nanos at{};
    double live = 0;       // bytes
    uint32_t staying = 0;  // samples alive, of contexts known to stay
  };
  void forget_counts();
  void descend(const StackTable& stacks, Rows& rows);
  bool enter(Row& row, uint64_t word, int level);
  bool is_split(const Node& node) const;
  void count_staying(Rows& rows) const;
  void decide_parts();
  uint64_t size_of(const Node& node) const;
  void hear(Node& parent, const Node& part, const Verdict& verdict);
  Verdict verdict_on(const Node& node) const;
  bool answers(const Node& node) const;
  bool compare_all();
  bool show(Node& node);
  void fill(ContextTree& tree) const;
  using Family = StayPrior::Family;
  const Family* compare_parts(MetadataArena& scratch) const;
  LifetimeClass proven_class(uint32_t node, const Family* families) const;
  bool only_stays(uint32_t node) const;
  uint32_t site_of(uint32_t node) const;
  void sum_shares(const Rows& rows, const Family* families, Nanos now);
  void note_peak(const Rows& rows, double alive, Nanos now);
  void fade(LifetimeTable& table, const Rows& rows, Nanos now, Nanos began);
  void fade_prior(Node& node, Nanos run);
  void notice_fall(const Rows& rows, Nanos now);
  uint32_t intern(uint64_t key, int level);
  uint32_t slot_of(uint64_t key) const;
  void grow_index();

  Node* nodes_ = nullptr;
  uint32_t* index_ = nullptr;  // [kIndexSlots] of node numbers + 1; the first index_slots_ are used
  uint32_t index_slots_ = 1024;
  uint32_t count_ = 0;
  Shares shares_;
  StayPrior stays_;
  Nanos peak_at_{};
  float* at_peak_ = nullptr;  // [kMostContexts] bytes alive at the peak
  static constexpr uint32_t kLevels = 4;
  Level levels_[kLevels] = {};  // of the rounds before, the last one first
  bool falling_ = false;
  Nanos window_began_{};
  uint32_t contexts_ = 0;      // of the last round
  uint8_t* agreed_ = nullptr;  // [kMostContexts] windows that agreed on a shorter life
};

}  // namespace llamalloc
