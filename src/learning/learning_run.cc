// SPDX-License-Identifier: Apache-2.0
#include "learning/learning_run.h"

#include <algorithm>

#include "base/sort.h"

namespace llamalloc {

namespace {

// What helped elsewhere: here it is on trial.
GateKept on_trial(GateKept proof) {
  if (proof.verdict == GateVerdict::helps) proof.verdict = GateVerdict::on_trial;
  return proof;
}

}  // namespace

void LearningRun::take_in(const LearnedState& state, GateFrom gate, ContextTree& tree,
                          PageSource& scratch) {
  if (gate != GateFrom::none) {
    GateKept kept = state.header.gate;
    is_aged_ = state.header.runs != 0 && state.header.runs % kRunsUntilRetrial == 0;
    if (is_aged_) kept.age(state.header.runs % (2 * kRunsUntilRetrial) == 0);
    gate_ = Gate(gate == GateFrom::this_build ? kept : on_trial(kept));
    gate_then_ = state.header.gate;
  }
  gate_from_ = gate;
  has_file_ = true;
  runs_before_ = state.header.runs;
  NodeArray best;
  if (!merge_nodes(state.nodes.view(), {}, {}, kMostKept, scratch, &best)) return;
  for (const LearnedNode& node : best.view())
    learner_.take_in(node.key, node.level, node.differs, node.evidence);
  best.give_back();
  learner_.show_all(tree);
}

// ----- Rounds -----

void LearningRun::round(const Tables& tables, Nanos now) {
  if (!learner_.is_open()) {
    next_round_ = now + kRound;
    return;
  }
  // Before its first sample, which most forked children never see, a process knows nothing new.
  const bool sampled = tables.profiler.samples() != 0;
  if (sampled && forked_) learner_.begin_anew();
  forked_ = forked_ && !sampled;
  const bool changed =
      sampled && learner_.round(tables.profiler, tables.tree, tables.system, now, began_);
  // Once more a round later: a thread may have published what it had looked up before.
  if (changed || changed_before_ || wants_firsts(tables.profiler, now)) tables.cache.clear();
  changed_before_ = changed;
  const Nanos rest{(tables.system.now() - now).n * kShareOfTime};
  next_round_ = now + std::clamp(rest, kRound, kLongestRest);
}

bool LearningRun::step_gate(Nanos now, const HeapFigures& heap, const Trust::Figures& trust,
                            bool last) {
  const bool learns = learner_.is_open();
  const Learner::Shares learned = forked_ ? Learner::Shares{} : learner_.shares();
  return gate_.step(now,
                    {.held = heap.held,
                     .live = heap.live,
                     .short_share = learns ? learned.short_lived : trust.short_share,
                     .long_share = learns ? learned.long_lived : trust.long_share,
                     .older = trust.older,
                     .late = trust.late,
                     .parted = learned.parted,
                     .peak = learned.peak,
                     .time = heap.time,
                     .time_now = heap.time_now,
                     .late_now = trust.late_now},
                    last);
}

void LearningRun::take_evidence(const GateKept& of_model) {
  if (gate_.kept() != GateKept{}) return;
  gate_ = Gate(on_trial(of_model));
  given_ = gate_.kept();
}

// A round is due at once: until it, the nodes hold what is the parent's to save.
void LearningRun::fork_at(Nanos now) {
  began_ = now;
  next_round_ = {};
  counted_ = 0;  // it begins with none of its parent's samples
  counted_at_ = now;
  if (!is_aged_) gate_then_.own = gate_.kept();
  forked_ = true;
}

// Finer again only well below the bound, or it would change each second.
void LearningRun::note_samples(uint64_t samples, Nanos now) {
  if (now - counted_at_ < kRound) return;
  const double seconds = static_cast<double>((now - counted_at_).n) * 1e-9;
  double rate = static_cast<double>(samples - counted_) / seconds;
  counted_ = samples;
  counted_at_ = now;
  if (rate < kMostSamples / 4.0 && coarser_ > 0) --coarser_;
  for (; rate > kMostSamples && coarser_ < kMostCoarser; rate /= 2) ++coarser_;
}

// While there are contexts that nobody knows, their next objects are sampled for certain, too: two
// that stay are enough.
bool LearningRun::wants_firsts(const Profiler& profiler, Nanos now) {
  if (now - looked_for_firsts_ < kFirsts || profiler.firsts() == firsts_) return false;
  looked_for_firsts_ = now;
  firsts_ = profiler.firsts();
  return true;
}

// ----- Keeping -----

// This run's evidence, as the file has it or as it will have it.
bool LearningRun::collect(Part part, PageSource& scratch, NodeArray* out) const {
  if (!out->make_room(learner_.size(), scratch)) return learner_.size() == 0;
  for (uint32_t i = 0; i < learner_.size(); ++i) {
    const Learner::Node& node = learner_.node(i);
    const Evidence& evidence = part == Part::saved ? node.saved : node.steady;
    if (is_empty(evidence)) continue;
    LearnedNode kept;
    kept.key = node.key;
    kept.level = node.level & 0x7f;
    kept.differs = node.deeper;
    kept.evidence = evidence;
    kept.parent = learner_.parent_key(node);
    kept.word = node.word;
    out->append(kept);
  }
  sort_rows(out->data(), out->size(),
            [](const LearnedNode& a, const LearnedNode& b) { return a.key < b.key; });
  return true;
}

// What this run found to be out of date: in the file it is, too.
void LearningRun::fade(std::span<LearnedNode> nodes) const {
  const auto by_key = [](const LearnedNode& node, uint64_t key) { return node.key < key; };
  for (uint32_t i = 0; i < learner_.size(); ++i) {
    const Learner::Node& faded = learner_.node(i);
    if (faded.fades == 0) continue;
    const auto found = std::lower_bound(nodes.begin(), nodes.end(), faded.key, by_key);
    if (found == nodes.end() || found->key != faded.key) continue;
    for (int times = faded.fades; times > 0; --times) found->evidence.halve();
  }
}

// A run that does not count has not aged the file: the next one does.
bool LearningRun::keeps_gate() const {
  return counts_ || !is_aged_;
}

// Processes that begin together are one run, and so is one with all that fork from it: servers fork
// thousands, and each run ages what is in the file. The first that writes counts it. So some start
// sees each number of runs, and kRunsUntilRetrial is not passed over.
bool LearningRun::is_to_be_counted(const LearnedHeader& header) const {
  return counts_ && !wrote_ && header.runs <= runs_before_;
}

// The file says whose record of the gate it has. Another build's record stays, and stays that
// build's, until this process has one of its own: of a build that is not alike, once it measured
// something. Of a build that is alike both are joined, but what helped it is on trial here.
void LearningRun::add_gate_to(LearnedHeader* header, ReadStatus status, const Build& build) const {
  const bool is_others = status == ReadStatus::other_build;
  const bool is_unlike = is_others && (gate_from_ == GateFrom::none || build.known < kEnoughKnown);
  const bool is_alike =
      (is_others && !is_unlike) || (status == ReadStatus::ok && gate_from_ == GateFrom::like_build);
  const bool theirs_to_keep = is_unlike && header->gate != GateKept{};
  if (theirs_to_keep && gate_.kept() == given_) return;
  if (is_alike && !keeps_gate()) return;
  header->program = build.program;
  header->modules = build.modules;
  if (!is_usable(status) || is_unlike)
    header->gate = gate_.kept();
  else if (is_alike)
    header->gate = merge_gates({on_trial(gate_then_.own), on_trial(gate_then_.written)},
                               gate_.kept(), on_trial(header->gate));
  else if (keeps_gate())
    header->gate = merge_gates(gate_then_, gate_.kept(), header->gate);
  if (!header->gate.is_valid()) header->gate = {};  // a reader would refuse all of it
}

bool LearningRun::add_to(LearnedState* file, ReadStatus status, const Build& build,
                         PageSource& scratch) {
  if (is_to_be_counted(file->header)) {
    age_nodes(file->nodes.rows());
    ++file->header.runs;
  }
  add_gate_to(&file->header, status, build);
  const bool is_ours = file->header.program == build.program;
  gate_written_ = is_ours ? file->header.gate : GateKept{};
  NodeArray before, now, merged;
  bool whole = collect(Part::saved, scratch, &before) && collect(Part::steady, scratch, &now);
  fade(file->nodes.rows());
  fade(before.rows());
  whole = whole &&
          merge_nodes(file->nodes.view(), before.view(), now.view(), kMostKept, scratch, &merged);
  before.give_back();
  now.give_back();
  if (!whole) return false;
  settle_differs(merged.rows(), scratch);
  file->nodes.give_back();
  file->nodes = merged;
  return true;
}

namespace {

// Each once, sorted. False: no memory.
bool codes_of(LearnedNodes nodes, PageSource& scratch, MappedRows<uint64_t>* out) {
  if (!out->make_room(nodes.size(), scratch)) return false;
  for (const LearnedNode& node : nodes)
    if (node.names_a_frame()) out->append(node.word);
  sort_rows(out->data(), out->size(), [](uint64_t a, uint64_t b) { return a < b; });
  out->drop_repeated([](uint64_t a, uint64_t b) { return a == b; });
  return true;
}

}  // namespace

bool LearningRun::keep_frames_of(LearnedState* file, PageSource& scratch) const {
  MappedRows<uint64_t> codes;
  const bool kept = codes_of(file->nodes.view(), scratch, &codes) &&
                    keep_frames(codes.view(), seen_.view(), scratch, &file->frames);
  codes.give_back();
  return kept;
}

bool LearningRun::look_at_frames(const StackTable& stacks, LoadedFunctions& functions,
                                 PageSource& pages) {
  NodeArray nodes;
  MappedRows<uint64_t> codes;
  const bool looked = collect(Part::steady, pages, &nodes) &&
                      codes_of(nodes.view(), pages, &codes) &&
                      seen_.look(codes.view(), stacks, functions, pages);
  nodes.give_back();
  codes.give_back();
  return looked;
}

void LearningRun::note_saved() {
  wrote_ = wrote_ || counts_;
  has_file_ = true;
  for (uint32_t i = 0; i < learner_.size(); ++i) {
    learner_.node(i).saved = learner_.node(i).steady;
    learner_.node(i).fades = 0;
  }
  if (!keeps_gate()) return;
  is_aged_ = false;
  if (gate_from_ == GateFrom::like_build) gate_from_ = GateFrom::this_build;
  gate_then_ = {gate_.kept(), gate_written_};
}

bool LearningRun::has_news() const {
  if (forked_) return false;
  bool news = keeps_gate() && gate_.kept() != gate_then_.own;
  for (uint32_t i = 0; i < learner_.size() && !news; ++i) {
    const Learner::Node& node = learner_.node(i);
    news = node.steady != node.saved || node.fades != 0;
  }
  return news;
}

}  // namespace llamalloc
