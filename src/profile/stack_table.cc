// SPDX-License-Identifier: Apache-2.0
#include "profile/stack_table.h"

#include <algorithm>

namespace llamalloc {

namespace {

uint64_t hash_of(const uint32_t* frames, uint32_t depth) {
  uint64_t hash = depth;
  for (uint32_t i = 0; i < depth; ++i)
    hash = (hash ^ frames[i]) * 0xFF51AFD7ED558CCDull, hash ^= hash >> 32;
  return hash;
}

uint64_t hash_of(const StackTrace& trace, uint32_t depth) {
  uint64_t hash = depth;
  for (uint32_t i = 0; i < depth; ++i)
    hash = (hash ^ trace.frames[i]) * 0xFF51AFD7ED558CCDull, hash ^= hash >> 32;
  return hash;
}

uint64_t frame_hash(uintptr_t address, uint32_t module) {
  return address ^ uint64_t { module } << 48;
}

}  // namespace

bool StackTable::is_it(const Stack& stack, const uint32_t* frames, uint32_t depth) {
  bool same = stack.depth == depth;
  for (uint32_t i = 0; i < depth && same; ++i) same = stack.frame(i) == frames[i];
  return same;
}

void StackTable::bound(uint32_t most, uint32_t freely) {
  LockGuard guard(lock_);
  most_ = most;
  freely_ = freely;
}

bool StackTable::is_to_wait(const StackTrace& trace, uint32_t depth) {
  if (stacks_.size() < freely_) return false;
  if (seen_ == nullptr) seen_ = arena_.make_array<uint32_t>(kSeenPlaces);
  if (seen_ == nullptr) return true;
  const uint64_t hash = hash_of(trace, depth);
  const uint32_t tag = static_cast<uint32_t>(hash >> 32) | 1;
  uint32_t& place = seen_[hash % kSeenPlaces];
  const bool again = place == tag;
  place = tag;
  return !again;
}

// By the ids of the frames: images without a number of their own give the same stack.
uint32_t StackTable::find(const StackTrace& trace, uint32_t depth) const {
  uint32_t frames[kMaxFrames];
  for (uint32_t i = 0; i < depth; ++i) {
    frames[i] = find_frame(trace.frames[i], find_module(trace.images[i]));
    if (frames[i] == kNone) return kNone;
  }
  if (depth < trace.depth && (frames[depth++] = find_frame(0, 0)) == kNone) return kNone;
  return stack_index_.find(hash_of(frames, depth),
                           [&](uint32_t stack) { return is_it(*stacks_[stack], frames, depth); });
}

uint32_t StackTable::intern(const StackTrace& trace) {
  LockGuard guard(lock_);
  const uint32_t stack = intern(trace, trace.depth);
  return stack == kNone && trace.depth > kInnermost ? intern(trace, kInnermost) : stack;
}

uint32_t StackTable::intern(const StackTrace& trace, uint32_t depth) {
  const uint32_t known = find(trace, depth);
  if (known != kNone || is_full() || is_to_wait(trace, depth)) return known;
  uint32_t frames[kMaxFrames];
  for (uint32_t i = 0; i < depth; ++i) {
    frames[i] = intern_frame(trace.frames[i], trace.images[i], trace.codes[i]);
    if (frames[i] == kNone) return kNone;
  }
  if (depth < trace.depth && (frames[depth++] = intern_frame(0, 0, 0)) == kNone) return kNone;
  if (!stack_index_.reserve_one(arena_)) return kNone;
  const uint32_t stack = add(frames, depth);
  if (stack != kNone) stack_index_.insert(hash_of(frames, depth), stack);
  return stack;
}

uint32_t StackTable::add(const uint32_t* frames, uint32_t depth) {
  const bool wide = std::any_of(frames, frames + depth, [](uint32_t f) { return f > UINT16_MAX; });
  const size_t bytes = sizeof(Stack) + depth * (wide ? sizeof(uint32_t) : sizeof(uint16_t));
  Stack* stack = static_cast<Stack*>(arena_.allocate(bytes, alignof(Stack)));
  if (stack == nullptr) return kNone;
  stack->depth = static_cast<uint16_t>(depth);
  stack->wide = wide;
  for (uint32_t i = 0; i < depth; ++i) {
    stack->frames[wide ? 2 * i : i] = static_cast<uint16_t>(frames[i]);
    if (wide) stack->frames[2 * i + 1] = static_cast<uint16_t>(frames[i] >> 16);
  }
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

uint32_t StackTable::find_frame(uintptr_t address, uint32_t module) const {
  return frame_index_.find(frame_hash(address, module), [&](uint32_t i) {
    return frames_[i].address == address && frames_[i].module == module;
  });
}

uint32_t StackTable::intern_frame(uintptr_t address, uint64_t image, uint64_t code) {
  const Frame frame{address, code, intern_module(image)};
  const uint32_t known = find_frame(address, frame.module);
  if (known != kNone || is_full() || !frame_index_.reserve_one(arena_)) return known;
  if (!frames_.push(arena_, frame)) return kNone;
  frame_index_.insert(frame_hash(address, frame.module), frames_.size() - 1);
  return frames_.size() - 1;
}

}  // namespace llamalloc
