// SPDX-License-Identifier: Apache-2.0
#include "profile/stack_table.h"

namespace llamalloc {

uint32_t StackTable::intern(const StackTrace& trace) {
  const uint64_t hash = trace.hash();
  LockGuard guard(lock_);
  const uint32_t known =
      stack_index_.find(hash, [&](uint32_t stack) { return equals(stack, trace); });
  if (known != kNone || !stack_index_.reserve_one(arena_)) return known;
  const uint32_t stack = add(trace);
  if (stack != kNone) stack_index_.insert(hash, stack);
  return stack;
}

bool StackTable::equals(uint32_t stack, const StackTrace& trace) const {
  const Stack& known = *stacks_[stack];
  if (known.depth != trace.depth) return false;
  for (uint32_t i = 0; i < known.depth; ++i)
    if (frames_[known.frames[i]] != trace.frames[i]) return false;
  return true;
}

uint32_t StackTable::add(const StackTrace& trace) {
  const size_t bytes = sizeof(Stack) + trace.depth * sizeof(uint32_t);
  Stack* stack = static_cast<Stack*>(arena_.allocate(bytes, alignof(Stack)));
  if (stack == nullptr) return kNone;
  stack->depth = trace.depth;
  for (uint32_t i = 0; i < trace.depth; ++i) {
    stack->frames[i] = intern_frame(trace.frames[i]);
    if (stack->frames[i] == kNone) return kNone;
  }
  return stacks_.push(arena_, stack) ? stacks_.size() - 1 : kNone;
}

uint32_t StackTable::intern_frame(uintptr_t address) {
  const uint32_t known =
      frame_index_.find(address, [&](uint32_t frame) { return frames_[frame] == address; });
  if (known != kNone || !frame_index_.reserve_one(arena_)) return known;
  if (!frames_.push(arena_, address)) return kNone;
  frame_index_.insert(address, frames_.size() - 1);
  return frames_.size() - 1;
}

}  // namespace llamalloc
