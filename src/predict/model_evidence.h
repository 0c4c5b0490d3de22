// SPDX-License-Identifier: Apache-2.0
// What a model file knows besides its network, in the order in which it is asked
// (contracts/model_format.md, Order of evidence):
//
//   find_exact   exact       frames by build and offset; for any thread
//   find_named   name        the same tree by function names: another build
//                site prior  the nearest node by names that is known
//   network      if it was right more often than the site prior where as much was known
//
// Points into the file. Nothing here allocates or locks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/stack_trace.h"
#include "predict/frame_name_key.h"
#include "predict/node_table.h"

namespace llamalloc {

enum class EvidenceKind : uint8_t { none, exact, name, prior, network };

// How much of a stack the names knew.
enum class Nearness : uint8_t { nothing, caller, site, site_and_caller };
inline constexpr int kNearnesses = 4;

// A stack whose frames are named one by one, as far as they are asked for.
class NamedStack {
 public:
  // frame: 0: the site. False: the stack ends before it, or nobody can say now what it is.
  virtual bool look(int frame, FrameName* out) = 0;

 protected:
  ~NamedStack() = default;
};

// One whose names lie there as text, innermost first.
class NamesAsText final : public NamedStack {
 public:
  NamesAsText(const char* const* frames, int depth) : frames_(frames), depth_(depth) {}
  bool look(int frame, FrameName* out) override {
    if (frame >= depth_) return false;
    *out = frame_name(frames_[frame]);
    return true;
  }

 private:
  const char* const* const frames_;
  const int depth_;
};

struct ModelEvidence {
  static constexpr int kSearchedCallers = 8;  // for one that is known
  static constexpr int kNamedFrames = 32;     // of a stack; the network reads as many
  static constexpr float kTrusted = 0.5f;     // what is right less often is not used

  struct Answer {
    EvidenceKind kind = EvidenceKind::none;
    LifetimeClass lifetime = LifetimeClass::mixed;
    Nearness nearness = Nearness::nothing;
    int callers = 0;  // by name: how many of them it depends on
  };

  NodeTable exact;
  NodeTable names;
  const uint8_t* priors = nullptr;  // of node i of names: priors[2 * i], a class
  // Shares that were right of contexts that no table knows; -1: not measured. That of the tables
  // does not compare with them, and decides nothing.
  const float* prior_trust = nullptr;    // [kNearnesses]
  const float* network_trust = nullptr;  // [kNearnesses]
  const uint64_t* builds = nullptr;      // hash_build_id of the programs that it was learned from
  size_t build_count = 0;
  char programs[512] = {};  // names of their files, joined by commas; empty: of any
  char gate[512] = {};      // what they proved of placement (GateKept::read); empty: nothing

  // codes: innermost first.
  Answer find_exact(const uint64_t* codes, int depth, size_t size) const;
  // kind: name, or prior or none: then the network may know better.
  Answer find_named(NamedStack& stack, size_t size) const;
  // Whether names lead anywhere from the function: it is a site or a caller of one.
  bool knows(const FrameName& name) const;
  bool asks_network(const Answer& named) const;

  enum class Origin { this_build, other_build, other_program };
  Origin origin(const char* program, uint64_t build) const;
};

}  // namespace llamalloc
