// SPDX-License-Identifier: Apache-2.0
// What was learned of calling contexts: nodes of a context tree, sorted by key, and the sum of two
// such sets (contracts/learned_state.md).
//
//   file now        A B . D    what all processes wrote
//   minus written   . B . .    what this one wrote last
//   plus own        . B C .    what it knows now
//   file next       A B C D    at most `bound`; long unseen ones go first, then those of few
//   samples
//
// Invariant of a set (is_sorted): keys ascend strictly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "learning/evidence.h"
#include "learning/mapped_rows.h"

namespace llamalloc {

inline constexpr uint8_t kMostLearnedLevels = 65;  // the size, and the frames of a stack trace

struct LearnedNode {
  uint64_t key = 0;  // predict/context_tree.h
  uint8_t level : 7 = 0;
  bool differs : 1 = false;  // lifetimes depend on what the next level tells apart
  uint8_t unseen = 0;        // runs since the run that last saw it
  Evidence evidence;
  // ContextPath::extend(parent, word) is the key. parent 0: not known, in a file of version 1.
  uint64_t parent = 0;
  uint64_t word = 0;  // the code of a frame, or the size bucket

  bool path_is_known() const { return parent != 0; }
  bool names_a_frame() const { return level != 2 && word != 0; }  // 0: the stack ends
};
static_assert(sizeof(LearnedNode) == 56);

using LearnedNodes = std::span<const LearnedNode>;

bool is_sorted(LearnedNodes nodes);
// A sample, or what is left of many after halving.
bool is_empty(const Evidence& evidence);

using NodeArray = MappedRows<LearnedNode>;

// base - take_away + add, without nodes that have no samples left, at most `bound`. A node was
// unseen for the fewer runs of both. False: no memory; *out, which must hold none, then has none.
bool merge_nodes(LearnedNodes base, LearnedNodes take_away, LearnedNodes add, size_t bound,
                 PageSource& pages, NodeArray* out);
// Clears `differs` where nothing in the set says any more that the parts of a node differ: all of
// its nodes one level deeper are decided, none of these differs itself, and they and the node live
// equally long, or so that it does not pay to tell them apart (evidence.h). Where there are none,
// as they left at the bound, or as nobody looked deeper, the node itself has to die soon. Without
// memory all stay as they are.
void settle_differs(std::span<LearnedNode> sorted, PageSource& scratch);
// One more run that did not see them.
void age_nodes(std::span<LearnedNode> nodes);

}  // namespace llamalloc
