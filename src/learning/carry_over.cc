// SPDX-License-Identifier: Apache-2.0
#include "learning/carry_over.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/sort.h"
#include "predict/context_tree.h"

namespace llamalloc {
namespace {

// The twins of a state's nodes, level by level, so that a node's parent has its own before. Where
// frames are at several places now, once for each place.
class Twins {
 public:
  Twins(LearnedState& state, const FrameMatch& frames)
      : state_(state), nodes_(state.nodes.rows()), frames_(frames) {}
  // False: no memory, and then the state is as it was.
  bool add_all(PageSource& scratch);
  // After it: of what the last runs saw.
  double known_share() const { return all_ > 0 ? known_ / all_ : 0; }

 private:
  size_t index_of(uint64_t key) const;
  uint64_t parent_here(const LearnedNode& node) const;
  uint64_t word_here(const LearnedNode& node) const;
  void find_keys();
  void count_known();
  void add(NodeArray* out);
  void age_what_moved(NodeArray* out) const;
  void add_frames(FrameArray* out) const;

  LearnedState& state_;
  std::span<LearnedNode> nodes_;
  const FrameMatch& frames_;
  uint32_t place_ = 0;
  MappedRows<uint64_t> key_here_;  // of each node, at this place; 0: not known
  MappedRows<bool> moved_;         // of each node: it has a new twin
  double known_ = 0, all_ = 0;     // samples
};

size_t Twins::index_of(uint64_t key) const {
  const auto at =
      std::lower_bound(nodes_.begin(), nodes_.end(), key,
                       [](const LearnedNode& node, uint64_t wanted) { return node.key < wanted; });
  return at != nodes_.end() && at->key == key ? static_cast<size_t>(at - nodes_.begin())
                                              : nodes_.size();
}

uint64_t Twins::parent_here(const LearnedNode& node) const {
  if (node.level == 1) return node.parent;
  const size_t parent = index_of(node.parent);
  return parent == nodes_.size() ? 0 : key_here_.view()[parent];
}

uint64_t Twins::word_here(const LearnedNode& node) const {
  return node.names_a_frame() ? frames_.find_here(node.word, place_).code : node.word;
}

void Twins::find_keys() {
  uint64_t* const keys = key_here_.data();
  std::fill_n(keys, nodes_.size(), 0);
  for (int level = 1; level <= kMostLearnedLevels; ++level) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].level != level || !nodes_[i].path_is_known()) continue;
      const uint64_t parent = parent_here(nodes_[i]), word = word_here(nodes_[i]);
      const bool lost = parent == 0 || (nodes_[i].names_a_frame() && word == 0);
      if (!lost) keys[i] = ContextPath::extend(parent, word);
    }
  }
}

void Twins::count_known() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].differs || nodes_[i].unseen > 0) continue;
    const double samples = nodes_[i].evidence.samples();
    all_ += samples;
    if (key_here_.view()[i] != 0) known_ += samples;
  }
}

void Twins::add(NodeArray* out) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    LearnedNode twin = nodes_[i];
    twin.key = key_here_.view()[i];
    if (twin.key == 0 || index_of(twin.key) != nodes_.size()) continue;
    twin.parent = parent_here(nodes_[i]);
    twin.word = word_here(nodes_[i]);
    out->append(twin);
    moved_.data()[i] = true;
  }
}

// At the bound, what this build cannot ask for leaves before what it can.
void Twins::age_what_moved(NodeArray* out) const {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (moved_.view()[i] && out->data()[i].unseen < UINT8_MAX) ++out->data()[i].unseen;
}

void Twins::add_frames(FrameArray* out) const {
  for (const LearnedFrame& frame : state_.frames.view()) {
    out->append(frame);
    for (uint32_t place = 0; place < frames_.places(); ++place) {
      const LearnedFrame here = frames_.find_here(frame.code, place);
      if (here.code != 0) out->append(here);
    }
  }
  sort_frames(out);
}

// Several earlier builds may have twins of the same key: what was seen last, and most, stays.
void keep_best_of_each(NodeArray* nodes) {
  const auto order = [](const LearnedNode& node) {
    return std::tuple(node.key, node.unseen, ~node.evidence.samples());
  };
  sort_rows(nodes->data(), nodes->size(),
            [order](const LearnedNode& a, const LearnedNode& b) { return order(a) < order(b); });
  nodes->drop_repeated([](const LearnedNode& a, const LearnedNode& b) { return a.key == b.key; });
}

bool Twins::add_all(PageSource& scratch) {
  const uint32_t places = frames_.places();
  NodeArray all;
  FrameArray frames;
  const bool room = key_here_.make_room(nodes_.size(), scratch) &&
                    moved_.make_room(nodes_.size(), scratch) &&
                    all.make_room((places + 1) * nodes_.size(), scratch) &&
                    frames.make_room((places + 1) * state_.frames.size(), scratch);
  if (room) {
    key_here_.cut(nodes_.size());
    moved_.cut(nodes_.size());
    std::fill_n(moved_.data(), nodes_.size(), false);
    for (const LearnedNode& node : nodes_) all.append(node);
    for (place_ = 0; place_ < places; ++place_) {
      find_keys();
      if (place_ == 0) count_known();
      add(&all);
    }
    age_what_moved(&all);
    add_frames(&frames);
    keep_best_of_each(&all);
    std::swap(state_.nodes, all);
    std::swap(state_.frames, frames);
  }
  key_here_.give_back();
  moved_.give_back();
  all.give_back();
  frames.give_back();
  return room;
}

}  // namespace

double carry_over(LearnedState* state, LoadedFunctions& functions, PageSource& scratch) {
  FrameMatch frames;
  double share = 0;
  if (state->frames.size() > 0 && frames.find(state->frames.view(), functions, scratch)) {
    Twins twins(*state, frames);
    if (twins.add_all(scratch)) share = twins.known_share();
  }
  frames.give_back();
  return share;
}

}  // namespace llamalloc
