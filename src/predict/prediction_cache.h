// SPDX-License-Identifier: Apache-2.0
// Maps a context key to a lifetime class in a few loads; read by every allocation with a model.
//
//   key  = hash of (return address, stack height, size class); past wrappers, more return addresses
//   slot = [ tag: 48 bits of the key | marks:8 | pending:1 | group:3 | class:4 ]    2 slots a set
//
// One table for the process, written by the worker and read by all threads. So a new context costs
// one miss for the process, and not one for each thread. A slot is one atomic word, so a reader
// sees the old or the new slot, never a mix. Each lookup has a collision probability of 2^-48.
//
// `sites` holds the return addresses that lie in wrappers (zmalloc, operator new), with the
// distance from the stack pointer to the wrapper's own return address. So the key can include the
// wrapper's caller, with one load for each level. A site counts as a wrapper once the worker has
// seen two callers of it.
//
// The marks say in which modules the key's return addresses lie (os/module_watch.h). The entries of
// a module are dropped when it is unloaded, since another module may be loaded at its address.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/call_site.h"
#include "base/hash.h"
#include "base/lifetime_class.h"
#include "base/units.h"
#include "os/own_stack.h"
#include "predict/path_cache.h"

namespace llamalloc {

// The mark of a key with return addresses in no known module. It goes with any that is unloaded.
inline constexpr uint8_t kUnknownModule = 1;

class SiteTable {
 public:
  static constexpr int kShift = 12;
  static constexpr int kDepth = CallPath::kMostCallers;  // levels that a key looks past

  // A hash of the address. The table's index is made from it, and other hashes use it too.
  static uint64_t hash(uintptr_t return_address) { return return_address * 0x9E3779B97F4A7C15ull; }

  // return_address lies in a function F. The result: bytes from the stack pointer there to just
  // above F's own return address; 0: F is not a wrapper.
  uint32_t frame_bytes(uintptr_t return_address) const {
    return frame_bytes(return_address, hash(return_address));
  }
  uint32_t frame_bytes(uintptr_t return_address, uint64_t its_hash) const {
    const uint64_t slot = slots_[its_hash >> (64 - kShift)].load(std::memory_order_relaxed);
    return (slot ^ return_address) << 16 == 0 ? static_cast<uint32_t>(slot >> 48) * 8 : 0;
  }
  static constexpr uint32_t kMostBytes = PathCache::kMostBytes;
  // bytes: a multiple of 8 below kMostBytes.
  void add(uintptr_t return_address, uint32_t bytes) {
    slots_[hash(return_address) >> (64 - kShift)].store(return_address | uint64_t{bytes / 8} << 48,
                                                        std::memory_order_relaxed);
  }
  // Drops each site for which is_gone(return address) is true.
  template <typename F>
  void forget_if(F&& is_gone) {
    for (auto& slot : slots_) {
      uint64_t value = slot.load(std::memory_order_relaxed);
      if (value != 0 && is_gone(static_cast<uintptr_t>(value << 16 >> 16)))
        slot.compare_exchange_strong(value, 0, std::memory_order_relaxed);
    }
  }

 private:
  std::atomic<uint64_t> slots_[size_t{1} << kShift]{};
};

struct Prediction {
  bool found = false;
  bool pending = false;
  LifetimeClass lifetime = LifetimeClass::mixed;
  PageGroup group = PageGroup::unknown;
  uint8_t marks = 0;
};

class PredictionCache {
 public:
  PathCache decided;  // asked first, and first here: its address is the table's own

  static constexpr int kShift = 14;                     // sets of two slots: 256 KiB
  static constexpr uint64_t kUsed = uint64_t{1} << 63;  // set in each key, so that no tag is zero

  // The key of a site alone, for the prior of contexts not seen before.
  static uint64_t site_key(CallSite site, int size_class) {
    return mix(mix(0x5bd1e995, site.return_address), static_cast<uint64_t>(size_class) + 1) | kUsed;
  }

  // own: the thread's own stack. Stack heights are relative to its high end, so they agree between
  // threads; on another stack, such as a coroutine's, to the end of the page: there may be
  // thousands of those. size_class: below 256. Reads up to kDepth words of the caller's stack above
  // stack_pointer: within own, or within the page of its stack pointer.
  uint64_t context_key(CallSite site, const StackBounds& own, int size_class) const {
    const uint64_t hash = SiteTable::hash(site.return_address);
    const uintptr_t limit = own.readable_limit(site.stack_pointer);
    uint64_t key = shallow_key(hash, site, limit, size_class);
    uint32_t bytes = sites.frame_bytes(site.return_address, hash);
    for (int depth = 0; bytes != 0 && depth < SiteTable::kDepth; ++depth) {
      if (bytes > limit - site.stack_pointer) break;
      site.stack_pointer += bytes;
      site.return_address = reinterpret_cast<const uintptr_t*>(site.stack_pointer)[-1];
      key = mix(key, site.return_address);
      bytes = sites.frame_bytes(site.return_address);
    }
    return finish(key);
  }

  // Finds the group of a context if its site is not a wrapper, it is the first of its set and the
  // thread is on its own stack (the common case). False: use find().
  bool find_quickly(CallSite site, uintptr_t stack_high, int size_class, PageGroup* group) const {
    const uint64_t hash = SiteTable::hash(site.return_address);
    const uint64_t key = finish(shallow_key(hash, site, stack_high, size_class));
    const uint64_t slot = slots_[set_of(key)].load(std::memory_order_relaxed);
    const bool plain = sites.frame_bytes(site.return_address, hash) == 0;
    *group = group_in(slot);
    return plain && (slot ^ key) <= ~kTag;
  }

  Prediction find(uint64_t key) const {
    for (size_t way = 0; way < 2; ++way) {
      const uint64_t slot = slots_[set_of(key) + way].load(std::memory_order_relaxed);
      if (((slot ^ key) & kTag) == 0)
        return {true, (slot & kPending) != 0, static_cast<LifetimeClass>(slot & 15), group_in(slot),
                static_cast<uint8_t>(slot >> kMarksShift)};
    }
    return {};
  }
  // Enters a new key as pending, with the prior's class; false if another thread just did.
  bool begin(uint64_t key, LifetimeClass prior) {
    return write(key, slot_of(key, prior, 0) | kPending, false);
  }
  void publish(uint64_t key, LifetimeClass lifetime, uint8_t marks = 0) {
    write(key, slot_of(key, lifetime, marks), true);
  }
  // Removes all keys.
  void clear();
  // Removes a key: its next use is a miss.
  void forget(uint64_t key);
  // Removes all keys that have one of the marks; returns how many.
  size_t forget_marked(uint8_t marks);

  // f(class) for every slot with a prediction.
  template <typename F>
  void for_each(F&& f) const {
    for (const auto& slot : slots_) {
      const uint64_t value = slot.load(std::memory_order_relaxed);
      if ((value & kTag) != 0 && (value & kPending) == 0) f(static_cast<LifetimeClass>(value & 15));
    }
  }

  SiteTable sites;

 private:
  static constexpr uint64_t kTag = ~uint64_t{0xffff};
  static constexpr uint64_t kPending = uint64_t{1} << 7;
  static constexpr int kMarksShift = 8;

  static uint64_t shallow_key(uint64_t site_hash, CallSite site, uintptr_t stack_high,
                              int size_class) {
    const uint64_t shape =
        (stack_high - site.stack_pointer) << 8 | static_cast<uint64_t>(size_class);
    return site_hash ^ shape * 0xD6E8FEB86659FD93ull;
  }
  static PageGroup group_in(uint64_t slot) { return static_cast<PageGroup>(slot >> 4 & 7); }
  static uint64_t finish(uint64_t key) { return (key ^ key >> 32) | kUsed; }
  static size_t set_of(uint64_t key) { return (key & ((size_t{1} << kShift) - 1)) * 2; }
  static uint64_t slot_of(uint64_t key, LifetimeClass lifetime, uint8_t marks) {
    return (key & kTag) | uint64_t{marks} << kMarksShift |
           static_cast<uint64_t>(group_of(lifetime)) << 4 | static_cast<uint64_t>(lifetime);
  }
  bool write(uint64_t key, uint64_t value, bool overwrite);

  std::atomic<uint64_t> slots_[size_t{2} << kShift]{};
};

}  // namespace llamalloc
