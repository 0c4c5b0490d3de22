// SPDX-License-Identifier: Apache-2.0
// From a call site, and as many of its callers as it takes, to where the objects go: what the fast
// path asks first. Where the site decides alone, one load answers, which needs neither the stack
// nor the table of wrappers. Else the site's slot tells how far above on the stack its caller's
// return address is, both name the next slot, and so on: one load of the stack and one of the table
// for each caller.
//
//   slot = [ tag: 48 bits of the key | place:16 ]    decided
//          [ tag ^ 1 | bytes / 8:16 ]                ask the caller
//          [ tag ^ 2 | place:16 ]                    decided, but look at other callers at times
//   path = hash of the return address, then of (path, return address of the caller)
//   key  = path and shape, so that what a path has of like shapes is side by side
//
// 128 KiB, one atomic word a slot: any thread may write, all read. A key has its first slot, or, if
// another key came earlier, the one beside that: what is hot comes first after a clear, and what
// comes later does not push it out of its first slot. shape and place mean what their users make of
// them (placement/placement.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/call_site.h"

namespace llamalloc {

// Return addresses from the site on, and from each but the last one the bytes of its frame: from
// the stack pointer there to just above the next return address.
struct CallPath {
  static constexpr int kMostCallers = 6;

  int callers = 0;  // 0: the site decides, or the path is not known
  uintptr_t frames[kMostCallers + 1] = {};
  uint32_t bytes[kMostCallers] = {};  // multiples of 8 below PathCache::kMostBytes
};

class PathCache {
 public:
  static constexpr uint32_t kMostBytes = 512 * 1024;
  enum class Kind : uint64_t { decided, ask, explored };  // as the tag shows it; else: not found

  static uint64_t path_of(uintptr_t return_address) { return return_address * kFactor; }

  // In its first slot. Where it is decided, *place is what was published for the site and shape.
  // path: of the site. *is_free: nothing is in that slot, so nothing of this key is beside it.
  Kind find(uint64_t path, size_t shape, uint16_t* place, bool* is_free = nullptr) const {
    const uint64_t key = key_of(path, shape);
    const uint64_t slot = load(index_of(key));
    if (is_free != nullptr) *is_free = slot == 0;
    return found(slot, key, place);
  }
  // In the other one.
  Kind find_beside(uint64_t path, size_t shape, uint16_t* place) const {
    const uint64_t key = key_of(path, shape);
    return found(load(beside(index_of(key))), key, place);
  }
  // What find said to ask: by the first slot of the site's caller. word: what find gave as place;
  // limit: the end of what is readable of the stack.
  Kind find_caller(uint64_t path, uintptr_t stack_pointer, uintptr_t limit, uint16_t word,
                   size_t shape, uint16_t* place) const {
    if (!climb(&path, &stack_pointer, limit, word)) return Kind::ask;
    return find(path, shape, place);
  }
  // In any slot, past as many callers as it takes.
  Kind find_past(uint64_t path, uintptr_t stack_pointer, uintptr_t limit, size_t shape,
                 uint16_t* place) const {
    uint64_t key, slot;
    while (true) {
      key = key_of(path, shape);
      slot = slot_of(key);
      if (kind_of(slot, key) != Kind::ask) break;
      if (!climb(&path, &stack_pointer, limit, static_cast<uint16_t>(slot))) break;
    }
    return found(slot, key, place);
  }
  void publish(uint64_t path, size_t shape, uint16_t place) {
    put(key_of(path, shape), Kind::decided, place);
  }
  // kind: decided or explored.
  void publish_path(const CallPath& frames, size_t shape, uint16_t place,
                    Kind kind = Kind::decided) {
    uint64_t path = path_of(frames.frames[0]);
    for (int i = 0; i < frames.callers; ++i) {
      put(key_of(path, shape), Kind::ask, static_cast<uint16_t>(frames.bytes[i] / 8));
      path = extend(path, frames.frames[i + 1]);
    }
    put(key_of(path, shape), kind, place);
  }
  void forget(uint64_t path, size_t shape) {
    const uint64_t key = key_of(path, shape);
    for (const size_t i : {index_of(key), beside(index_of(key))}) {
      uint64_t value = load(i);
      if (kind_of(value, key) == Kind::decided)
        slots_[i].compare_exchange_strong(value, kForgotten, std::memory_order_relaxed);
    }
  }
  void clear() {
    for (auto& slot : slots_)
      if (slot.load(std::memory_order_relaxed) != 0) slot.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr int kShift = 14;
  static constexpr uint64_t kFactor = 0x9E3779B97F4A7C15ull;
  static constexpr uint64_t kForgotten = 1;  // of no key, and not free: another's may be beside

  // shape: a multiple of 32 below 2^16. Return addresses have 48 bits, so no two keys of sites are
  // alike; but their low 16 bits are not kept, so that a place may rarely be another site's: it
  // must do no harm there.
  static uint64_t key_of(uint64_t path, size_t shape) { return path ^ shape << (64 - kShift - 5); }
  // The high bits, which the index and most of the tag are made of, come from all of the path's.
  static uint64_t extend(uint64_t path, uintptr_t return_address) {
    return ((path ^ path >> 32) + return_address) * kFactor;
  }
  // From a frame to the caller's, which is so many words above; false: beyond what is readable.
  static bool climb(uint64_t* path, uintptr_t* stack_pointer, uintptr_t limit, uint16_t words) {
    const uintptr_t bytes = uintptr_t{words} * 8;
    if (__builtin_expect(bytes > limit - *stack_pointer, 0)) return false;
    *stack_pointer += bytes;
    *path = extend(*path, reinterpret_cast<const uintptr_t*>(*stack_pointer)[-1]);
    return true;
  }
  static size_t index_of(uint64_t key) { return key >> (64 - kShift); }
  static size_t beside(size_t index) { return index ^ 1; }
  static Kind kind_of(uint64_t slot, uint64_t key) { return static_cast<Kind>((slot ^ key) >> 16); }
  static bool is_of(uint64_t slot, uint64_t key) { return kind_of(slot, key) <= Kind::explored; }
  static Kind found(uint64_t slot, uint64_t key, uint16_t* place) {
    *place = static_cast<uint16_t>(slot);
    return kind_of(slot, key);
  }
  static bool is_others(uint64_t slot, uint64_t key) {
    return slot > kForgotten && !is_of(slot, key);
  }
  uint64_t load(size_t index) const { return slots_[index].load(std::memory_order_relaxed); }
  uint64_t slot_of(uint64_t key) const {
    const uint64_t first = load(index_of(key));
    const bool here = is_of(first, key) || first == 0;
    return __builtin_expect(here, 1) ? first : load(beside(index_of(key)));
  }
  void put(uint64_t key, Kind kind, uint16_t word) {
    const uint64_t tag = (key >> 16 ^ static_cast<uint64_t>(kind)) << 16;
    size_t at = index_of(key);
    if (is_others(load(at), key)) {
      at = beside(at);
      const uint64_t second = load(at);
      if (is_others(second, key) && index_of(second) == at) return;
    }
    slots_[at].store(tag | word, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> slots_[size_t{1} << kShift]{};
};

}  // namespace llamalloc
