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
    if (address(known.frames[i]) != trace.frames[i] ||
        !is_module(module(known.frames[i]), trace.images[i]))
      return false;
  return true;
}

bool StackTable::is_module(uint32_t module, uint64_t image) const {
  return module != 0 ? images_[module - 1] == image : find_module(image) == 0;
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

uint32_t StackTable::add(const StackTrace& trace) {
  const size_t bytes = sizeof(Stack) + trace.depth * sizeof(uint32_t);
  Stack* stack = static_cast<Stack*>(arena_.allocate(bytes, alignof(Stack)));
  if (stack == nullptr) return kNone;
  stack->depth = trace.depth;
  for (uint32_t i = 0; i < trace.depth; ++i) {
    stack->frames[i] = intern_frame(trace.frames[i], trace.images[i]);
    if (stack->frames[i] == kNone) return kNone;
  }
  return stacks_.push(arena_, stack) ? stacks_.size() - 1 : kNone;
}

uint32_t StackTable::intern_frame(uintptr_t address, uint64_t image) {
  const Frame frame{address, intern_module(image)};
  const uint64_t hash = address ^ uint64_t { frame.module } << 48;
  const uint32_t known = frame_index_.find(hash, [&](uint32_t i) {
    return frames_[i].address == address && frames_[i].module == frame.module;
  });
  if (known != kNone || !frame_index_.reserve_one(arena_)) return known;
  if (!frames_.push(arena_, frame)) return kNone;
  frame_index_.insert(hash, frames_.size() - 1);
  return frames_.size() - 1;
}

}  // namespace llamalloc
