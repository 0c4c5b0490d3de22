// SPDX-License-Identifier: Apache-2.0
// The frames that what was learned speaks of, and where they are in another build. A frame's code
// (base/code_key.h) says which build it is of; the shape of the function around it
// (base/function_shape.h) finds it again in a build in which this function did not change.
//
//   frames of the file, by shape  --+
//   functions that are loaded     --+--> FrameMatch: code in the file --> code here
//
// Sure before complete: where several functions look alike, their neighbours tell them apart, or
// their order if there are as many as there were, or else none of them is taken. A function that
// changed is the one between the same neighbours, and the frame its call of the same callee.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/loaded_functions.h"
#include "policy/mapped_rows.h"
#include "profile/stack_table.h"

namespace llamalloc {

// Of a function among those that look the same, in the order of their addresses.
struct AlikeRank {
  uint16_t ordinal = 0;
  uint16_t count = 0;  // 0: not known
  friend bool operator==(const AlikeRank&, const AlikeRank&) = default;
};

struct LearnedFrame {
  uint64_t code = 0;
  FunctionShape function;
  CallShape call;
  uint32_t offset = 0;  // of the return address in the function
  uint32_t build = 0;   // of its module, the lowest bits: frames of one build are different ones
  AlikeRank rank;
  friend bool operator==(const LearnedFrame&, const LearnedFrame&) = default;
};
static_assert(sizeof(LearnedFrame) == 48);

// Sorted: codes ascend strictly.
using LearnedFrames = std::span<const LearnedFrame>;
using FrameArray = MappedRows<LearnedFrame>;
bool is_sorted(LearnedFrames frames);
// Sorts, and keeps one of each code.
void sort_frames(FrameArray* frames);

class FrameMatch final : public LoadedFunctions::Visitor {
 public:
  // Of the frames; false: no memory. To be given back by hand.
  bool find(LearnedFrames frames, LoadedFunctions& functions, PageSource& scratch);
  void give_back() {
    rows_.give_back();
    by_neighbours_.give_back();
  }

  // What a frame is in this process that has this code in the file: itself, where its build is
  // loaded. Code 0: it was not found, or is no frame of the file. Where it is now at several
  // places, `place` says which; others have one place for all.
  LearnedFrame find_here(uint64_t code, uint32_t place) const;
  // The most that a frame has.
  uint32_t places() const { return places_; }

  void visit(const LoadedFunction& function) override;

 private:
  static constexpr uint8_t kNeighbours = 2;
  struct Row {
    LearnedFrame frame;
    LoadedFunction alike;   // the last of those that are most alike
    LoadedFunction ranked;  // the one with the frame's rank
    uint32_t alike_ordinal = 0;
    LoadedFunction between;  // the last one between the same neighbours
    uint32_t all_alike = 0;
    uint32_t most_alike = 0;
    uint32_t all_between = 0;
    uint8_t likeness = 0;  // of the one that is chosen: so many of its neighbours agree
    bool is_here = false;  // in its own build
    LearnedFrame here;     // at the first of its places
    uint32_t offsets[CallShape::kMostPlaces] = {};
    uint32_t places = 0;
  };
  void note_alike(const LoadedFunction& function);
  void note_between(const LoadedFunction& function);
  static void choose_alike(Row& row);
  static void place_alike(Row& row, const LoadedFunction& function, uint32_t ordinal);
  static void choose_between(Row& row, LoadedFunctions& functions);
  void settle_claims(LoadedFunctions* first_time);

  MappedRows<Row> rows_;                // by shape, in the end by code
  MappedRows<uint32_t> by_neighbours_;  // numbers of rows
  uint32_t places_ = 1;
};

// Adds to *frames what a file is to hold of the frames with these codes (sorted, each once): what
// it held already, else what is seen of the frame in this process. False: no memory, and then they
// are as they were.
bool keep_frames(std::span<const uint64_t> codes, const StackTable& stacks,
                 LoadedFunctions& functions, PageSource& scratch, FrameArray* frames);

}  // namespace llamalloc
