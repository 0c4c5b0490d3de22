// SPDX-License-Identifier: Apache-2.0
// The frames that what was learned speaks of, and where they are in another build. A frame's code
// (base/code_key.h) says which build it is of; the shape of the function around it
// (base/function_shape.h) finds it again in a build in which this function did not change.
//
//   frames of the file, by shape  --+
//   functions that are loaded     --+--> FrameMatch: code in the file --> code here
//
// Sure before complete: a function has to look the same, and one of its neighbours, too. One that
// changed is the one between the same neighbours, and the frame its call of the same callee.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "learning/loaded_functions.h"
#include "learning/mapped_rows.h"
#include "profile/stack_table.h"

namespace llamalloc {

struct LearnedFrame {
  uint64_t code = 0;
  FunctionShape function;
  CallShape call;
  uint32_t offset = 0;  // of the return address in the function
  uint32_t build = 0;   // of its module, the lowest bits: frames of one build are different ones
  friend bool operator==(const LearnedFrame&, const LearnedFrame&) = default;
};
static_assert(sizeof(LearnedFrame) == 40);

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
    by_shape_.give_back();
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
  struct Row {
    LearnedFrame frame;
    LoadedFunction alike;    // the last of those that are most alike
    LoadedFunction between;  // the last one between the same neighbours
    uint32_t most_alike = 0;
    uint32_t all_between = 0;
    uint8_t likeness = 0;     // of the most alike: so many of their neighbours agree, too
    bool is_here = false;     // in its own build
    bool is_between = false;  // it is taken for that
    uint32_t places = 0;
    uint32_t offsets[CallShape::kMostPlaces] = {};  // in the function that it is taken for
  };
  // A place that a row is taken to be at. Best first.
  struct Claim {
    uint64_t code;
    uint32_t build;
    uint32_t worth;
    uint32_t row;
  };
  using Numbers = MappedRows<uint32_t>;

  using Key = uint64_t (*)(const Row& row);
  static uint64_t look_of(const Row& row);
  static uint64_t neighbours_of(const Row& row);
  bool sort_by(Key key, PageSource& scratch, Numbers* out);
  // note(row) for those with this key.
  template <typename Note>
  void for_rows(const Numbers& sorted, Key key, uint64_t wanted, Note&& note);
  void note_alike(const LoadedFunction& function);
  void note_between(const LoadedFunction& function);
  static void choose_alike(Row& row);
  static void choose_between(Row& row, LoadedFunctions& functions);
  bool settle_claims(LoadedFunctions* first_time, PageSource& scratch);
  static LearnedFrame at_place(const Row& row, uint32_t place);

  MappedRows<Row> rows_;  // by code
  Numbers by_shape_;      // of rows
  Numbers by_neighbours_;
  uint32_t places_ = 1;
};

// How the frames of this process look that its nodes are about. Each is looked at once.
class SeenFrames {
 public:
  // Those with these codes (sorted, each once). False: no memory.
  bool look(std::span<const uint64_t> codes, const StackTable& stacks, LoadedFunctions& functions,
            PageSource& pages);
  LearnedFrames view() const { return frames_.view(); }  // `self` 0: cannot be looked at
  void give_back() { frames_.give_back(); }

 private:
  FrameArray frames_;
};

// What a file is to hold of the frames with these codes: what was seen, else what it held. False:
// no memory, and then *frames is as it was.
bool keep_frames(std::span<const uint64_t> codes, LearnedFrames seen, PageSource& scratch,
                 FrameArray* frames);

}  // namespace llamalloc
