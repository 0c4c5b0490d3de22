// SPDX-License-Identifier: Apache-2.0
#include "profile/stack_table.h"

#include <cstring>

namespace llamalloc {

void StackTable::bound(uint32_t most) {
  LockGuard guard(lock_);
  most_ = most;
}

// By the ids of the frames: images without a number of their own give the same stack.
uint32_t StackTable::intern(const StackTrace& trace) {
  uint32_t frames[kMaxFrames];
  LockGuard guard(lock_);
  uint64_t hash = trace.depth;
  for (uint32_t i = 0; i < trace.depth; ++i) {
    frames[i] = intern_frame(trace.frames[i], trace.images[i], trace.codes[i]);
    if (frames[i] == kNone) return kNone;
    hash = (hash ^ frames[i]) * 0xFF51AFD7ED558CCDull, hash ^= hash >> 32;
  }
  const auto is_it = [&](uint32_t stack) {
    return stacks_[stack]->depth == trace.depth &&
           memcmp(stacks_[stack]->frames, frames, trace.depth * sizeof(frames[0])) == 0;
  };
  const uint32_t known = stack_index_.find(hash, is_it);
  if (known != kNone || is_full() || !stack_index_.reserve_one(arena_)) return known;
  const uint32_t stack = add(frames, trace.depth);
  if (stack != kNone) stack_index_.insert(hash, stack);
  return stack;
}

uint32_t StackTable::add(const uint32_t* frames, uint32_t depth) {
  const size_t bytes = sizeof(Stack) + depth * sizeof(uint32_t);
  Stack* stack = static_cast<Stack*>(arena_.allocate(bytes, alignof(Stack)));
  if (stack == nullptr) return kNone;
  stack->depth = depth;
  memcpy(stack->frames, frames, depth * sizeof(uint32_t));
  return stacks_.push(arena_, stack) ? stacks_.size() - 1 : kNone;
}

uint32_t StackTable::find_module(uint64_t image) const {
  const uint32_t known = module_index_.find(image, [&](uint32_t i) { return images_[i] == image; });
  return image == 0 || known == kNone ? 0 : known + 1;
}

uint32_t StackTable::intern_module(uint64_t image) {
  const uint32_t known = find_module(image);
  if (known != 0 || image == 0 || images_.size() + 1 == kMostModules) return known;
  if (!module_index_.reserve_one(arena_) || !images_.push(arena_, image)) return 0;
  module_index_.insert(image, images_.size() - 1);
  return images_.size();
}

uint32_t StackTable::intern_frame(uintptr_t address, uint64_t image, uint64_t code) {
  const Frame frame{address, code, intern_module(image)};
  const uint64_t hash = address ^ uint64_t { frame.module } << 48;
  const uint32_t known = frame_index_.find(hash, [&](uint32_t i) {
    return frames_[i].address == address && frames_[i].module == frame.module;
  });
  if (known != kNone || is_full() || !frame_index_.reserve_one(arena_)) return known;
  if (!frames_.push(arena_, frame)) return kNone;
  frame_index_.insert(hash, frames_.size() - 1);
  return frames_.size() - 1;
}

}  // namespace llamalloc
