// SPDX-License-Identifier: Apache-2.0
// From a context key to a lifetime class: what an allocation asks, in a few loads.
//
//   key  = hash of (return address, stack height, size class), deepened through wrappers
//   slot = [ tag: 48 bits of the key | marks:8 | pending:1 | group:3 | class:4 ]    2 slots a set
//
// One table for the process, written by the worker, read by everybody: a first-seen context costs
// one miss for the process and not one a thread. A slot is one atomic word, so a reader sees an old
// or a new slot and nothing between. Tags collide with probability 2^-48 a lookup.
//
// `sites` knows which return addresses belong to wrappers (zmalloc, operator new) and how far above
// the stack pointer their own return address lies, so that the key can look past them: one load for
// each level. A site becomes a wrapper when the worker has seen two callers of it.
//
// Sites that decide alone, without their callers, have a table of their own, which is asked first:
// it is small, and needs neither the stack's height nor `sites`.
//
// The marks say of which modules the key's return addresses are (os/module_watch.h): what a module
// taught is forgotten with it, as another may come to lie in its place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lifetime_class.h"
#include "base/units.h"
#include "os/own_stack.h"

namespace llamalloc {

// Where an allocation was asked for: the address it returns to, and the stack pointer after that.
struct CallSite {
  uintptr_t return_address;
  uintptr_t stack_pointer;
};

class SiteTable {
 public:
  static constexpr int kShift = 12;
  static constexpr int kDepth = 6;  // levels that a key looks past

  // A number of the address from which the table's index is made; of use in other hashes, too.
  static uint64_t hash(uintptr_t return_address) { return return_address * 0x9E3779B97F4A7C15ull; }

  // Bytes from the stack pointer at return_address to just above the return address of the function
  // that it lies in; 0: not a wrapper.
  uint32_t frame_bytes(uintptr_t return_address) const {
    return frame_bytes(return_address, hash(return_address));
  }
  uint32_t frame_bytes(uintptr_t return_address, uint64_t its_hash) const {
    const uint64_t slot = slots_[its_hash >> (64 - kShift)].load(std::memory_order_relaxed);
    return (slot ^ return_address) << 16 == 0 ? static_cast<uint32_t>(slot >> 48) * 8 : 0;
  }
  static constexpr uint32_t kMostBytes = 512 * 1024;
  // bytes: a multiple of 8 below kMostBytes.
  void add(uintptr_t return_address, uint32_t bytes) {
    slots_[hash(return_address) >> (64 - kShift)].store(return_address | uint64_t{bytes / 8} << 48,
                                                        std::memory_order_relaxed);
  }
  // Drops each site of which is_gone(return address) is true.
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
  static constexpr int kShift = 14;  // sets of two slots: 256 KiB

  static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    return hash ^ hash >> 29;
  }

  // The key of a site alone, for the prior of contexts not seen before.
  static uint64_t site_key(CallSite site, int size_class) {
    return mix(mix(0x5bd1e995, site.return_address), static_cast<uint64_t>(size_class) + 1) | kUsed;
  }

  // own: the thread's own stack. Its high end makes heights agree between threads.
  // size_class: below 256. Reads up to three words of the caller's stack above stack_pointer: in
  // own or, where the caller runs elsewhere, in the page of its stack pointer.
  uint64_t context_key(CallSite site, const StackBounds& own, int size_class) const {
    const uint64_t hash = SiteTable::hash(site.return_address);
    uint64_t key = shallow_key(hash, site, own.high, size_class);
    uint32_t bytes = sites.frame_bytes(site.return_address, hash);
    const uintptr_t limit = readable_limit(site.stack_pointer, own);
    for (int depth = 0; bytes != 0 && depth < SiteTable::kDepth; ++depth) {
      if (bytes > limit - site.stack_pointer) break;
      site.stack_pointer += bytes;
      site.return_address = reinterpret_cast<const uintptr_t*>(site.stack_pointer)[-1];
      key = mix(key, site.return_address);
      bytes = sites.frame_bytes(site.return_address);
    }
    return finish(key);
  }

  // The slot of a context whose site is no wrapper and that is the first of its set, as most are;
  // else 0, and find knows.
  uint64_t find_quickly(CallSite site, uintptr_t stack_high, int size_class) const {
    const uint64_t hash = SiteTable::hash(site.return_address);
    const uint64_t key = finish(shallow_key(hash, site, stack_high, size_class));
    const uint64_t slot = slots_[set_of(key)].load(std::memory_order_relaxed);
    const bool plain = sites.frame_bytes(site.return_address, hash) == 0;
    return __builtin_expect(plain && (slot ^ key) <= ~kTag, 1) ? slot : 0;
  }

  // The slot of a site whose objects live alike whoever calls it; 0: it is not known as one.
  uint64_t find_site(uintptr_t return_address, int size_class) const {
    const uint64_t key = decided_key(return_address, size_class);
    const uint64_t slot = decided_[key >> (64 - kDecidedShift)].load(std::memory_order_relaxed);
    return (slot ^ key) >> 16 == 0 ? slot : 0;
  }
  void publish_site(uintptr_t return_address, int size_class, LifetimeClass lifetime) {
    const uint64_t key = decided_key(return_address, size_class);
    decided_[key >> (64 - kDecidedShift)].store(slot_of(key, lifetime, 0),
                                                std::memory_order_relaxed);
  }
  static LifetimeClass class_in(uint64_t slot) { return static_cast<LifetimeClass>(slot & 15); }

  Prediction find(uint64_t key) const {
    for (size_t way = 0; way < 2; ++way) {
      const uint64_t slot = slots_[set_of(key) + way].load(std::memory_order_relaxed);
      if (((slot ^ key) & kTag) == 0)
        return {true, (slot & kPending) != 0, static_cast<LifetimeClass>(slot & 15), group_in(slot),
                static_cast<uint8_t>(slot >> kMarksShift)};
    }
    return {};
  }
  static PageGroup group_in(uint64_t slot) { return static_cast<PageGroup>(slot >> 4 & 7); }

  // Marks a first-seen key as under way, with the prior's class; false if somebody else just did.
  bool begin(uint64_t key, LifetimeClass prior) {
    return write(key, slot_of(key, prior, 0) | kPending, false);
  }
  void publish(uint64_t key, LifetimeClass lifetime, uint8_t marks = 0) {
    write(key, slot_of(key, lifetime, marks), true);
  }
  // Makes all keys unseen.
  void clear();
  // Makes a key unseen again.
  void forget(uint64_t key);
  // Makes all keys unseen that have one of the marks; returns how many.
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
  static constexpr uint64_t kUsed = uint64_t{1} << 63;  // so that no tag is zero
  static constexpr uint64_t kPending = uint64_t{1} << 7;
  static constexpr int kMarksShift = 8;

  static constexpr int kDecidedShift = 12;
  // Its top bits are the place, all but the low 16 the tag.
  static uint64_t decided_key(uintptr_t return_address, int size_class) {
    return (return_address ^ static_cast<uint64_t>(size_class) << 56) * 0x9E3779B97F4A7C15ull;
  }
  static uint64_t shallow_key(uint64_t site_hash, CallSite site, uintptr_t stack_high,
                              int size_class) {
    const uint64_t shape =
        (stack_high - site.stack_pointer) << 8 | static_cast<uint64_t>(size_class);
    return site_hash ^ shape * 0xD6E8FEB86659FD93ull;
  }
  // A call has just returned to the stack pointer: what lies right below it is there.
  static uintptr_t readable_limit(uintptr_t stack_pointer, const StackBounds& own) {
    return own.contains(stack_pointer) ? own.high : align_up(stack_pointer, kSmallPage);
  }
  static uint64_t finish(uint64_t key) { return (key ^ key >> 32) | kUsed; }
  static size_t set_of(uint64_t key) { return (key & ((size_t{1} << kShift) - 1)) * 2; }
  static uint64_t slot_of(uint64_t key, LifetimeClass lifetime, uint8_t marks) {
    return (key & kTag) | uint64_t{marks} << kMarksShift |
           static_cast<uint64_t>(group_of(lifetime)) << 4 | static_cast<uint64_t>(lifetime);
  }
  bool write(uint64_t key, uint64_t value, bool overwrite);

  std::atomic<uint64_t> slots_[size_t{2} << kShift]{};
  std::atomic<uint64_t> decided_[size_t{1} << kDecidedShift]{};  // direct-mapped
};

}  // namespace llamalloc
