// SPDX-License-Identifier: Apache-2.0
// Interned calling contexts: one id per distinct stack, one id per distinct return address.
//
//   stack id --> [ depth | frame id, frame id, ... ]   4 bytes a frame, innermost first
//   frame id --> return address, module id --> image (StackTrace::images)
//
// A frame is an address in one image: what was loaded at the same place later is another one. A
// program that loads new code for ever would fill the table; images after the first kMostModules
// are all called module 0, as are unknown ones, and share their frames (named_frames.h).
//
// intern() takes the table's lock; everything else reads without one: an id that was handed out
// stays valid for the life of the table. Nothing is ever removed.
#pragma once

#include <cstdint>

#include "base/stack_trace.h"
#include "os/arena.h"
#include "os/lock.h"
#include "profile/chunked_array.h"
#include "profile/id_index.h"

namespace llamalloc {

class StackTable {
 public:
  static constexpr uint32_t kNone = IdIndex::kNone;
  static constexpr uint32_t kMostModules = 1024;  // with module 0
  static constexpr uint32_t kSeenPlaces = 8192;
  static constexpr uint32_t kInnermost = 8;  // frames

  constexpr explicit StackTable(MetadataArena& arena) : arena_(arena) {}

  // The id of the stack, a new one if it was not seen before; kNone: full, or no memory. Where a
  // deep stack gets none, it is that of its innermost frames, and one more of address 0: what lies
  // further out is not known. So a recursion that never takes the same way twice is seen, too.
  uint32_t intern(const StackTrace& trace);
  // No new stacks or frames once there are `most` stacks. From `freely` on, a stack gets an id when
  // it is seen for the second time: stacks without end that are met once each do not fill memory,
  // and what comes again is found, however late.
  void bound(uint32_t most, uint32_t freely);

  uint32_t stacks() const { return stacks_.size(); }
  uint32_t depth(uint32_t stack) const { return stacks_[stack]->depth; }
  // i < depth(stack); 0 is the allocation site.
  uint32_t frame(uint32_t stack, uint32_t i) const { return stacks_[stack]->frame(i); }

  uint32_t frames() const { return frames_.size(); }
  uintptr_t address(uint32_t frame) const { return frames_[frame].address; }
  uint32_t module(uint32_t frame) const { return frames_[frame].module; }
  // StackTrace::codes; 0: unknown.
  uint64_t code(uint32_t frame) const { return frames_[frame].code; }
  // 0: unknown.
  uint64_t image(uint32_t frame) const {
    const uint32_t module = frames_[frame].module;
    return module == 0 ? 0 : images_[module - 1];
  }

  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }  // for fork; below it only the arena's

 private:
  // Two bytes a frame, four where an id needs more.
  struct Stack {
    uint16_t depth;
    uint16_t wide;
    uint16_t frames[];

    uint32_t frame(uint32_t i) const {
      return wide ? frames[2 * i] | uint32_t{frames[2 * i + 1]} << 16 : frames[i];
    }
  };
  static bool is_it(const Stack& stack, const uint32_t* frames, uint32_t depth);

  struct Frame {
    uintptr_t address;
    uint64_t code;
    uint32_t module;
  };

  bool is_full() const REQUIRES(lock_) { return stacks_.size() >= most_; }
  uint32_t intern(const StackTrace& trace, uint32_t depth) REQUIRES(lock_);
  uint32_t find(const StackTrace& trace, uint32_t depth) const REQUIRES(lock_);
  uint32_t find_frame(uintptr_t address, uint32_t module) const REQUIRES(lock_);
  uint32_t find_module(uint64_t image) const REQUIRES(lock_);
  uint32_t intern_module(uint64_t image) REQUIRES(lock_);
  uint32_t intern_frame(uintptr_t address, uint64_t image, uint64_t code) REQUIRES(lock_);
  uint32_t add(const uint32_t* frames, uint32_t depth) REQUIRES(lock_);
  bool is_to_wait(const StackTrace& trace, uint32_t depth) REQUIRES(lock_);

  MetadataArena& arena_;
  Lock lock_{LockRank::stack_table};
  uint32_t most_ GUARDED_BY(lock_) = kNone;
  uint32_t freely_ GUARDED_BY(lock_) = kNone;
  // Of stacks seen once: a tag at its place. A later one takes the place.
  uint32_t* seen_ GUARDED_BY(lock_) = nullptr;
  IdIndex stack_index_ GUARDED_BY(lock_);
  IdIndex frame_index_ GUARDED_BY(lock_);
  IdIndex module_index_ GUARDED_BY(lock_);
  ChunkedArray<const Stack*, 10, 4096> stacks_ WRITTEN_UNDER(lock_);          // 4 Mi stacks
  ChunkedArray<Frame, 10, 4096> frames_ WRITTEN_UNDER(lock_);                 // 4 Mi addresses
  ChunkedArray<uint64_t, 6, kMostModules / 64> images_ WRITTEN_UNDER(lock_);  // [module - 1]
};

}  // namespace llamalloc
