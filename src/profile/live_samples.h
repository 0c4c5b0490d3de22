// SPDX-License-Identifier: Apache-2.0
// The sampled objects that are alive, by address.
//
//   address --hash--> shard (16, a lock each) --> slots: linear probing, at most 2/3 full
//
//   before   [ A ][ B ][ C ][   ][ D ]      B, C hash to A's slot; take(A) moves them up, so that
//   after    [ B ][ C ][   ][   ][ D ]      no probe ever meets a hole or a tombstone
//
// Invariant (is_consistent): every sample is reachable from its home slot without crossing an
// empty one, and lies in the shard of its address. A shard doubles from the arena; what it leaves
// behind is at most as much again.
#pragma once

#include <cstdint>

#include "base/lifetime_class.h"
#include "base/units.h"
#include "os/arena.h"
#include "os/lock.h"

namespace llamalloc {

struct LiveSample {
  uintptr_t address;  // never 0
  size_t size;        // bytes asked for, last
  Nanos born;
  double weight;         // objects that it stands for (sampler.h)
  uint64_t context_key;  // the predictor's key
  uint32_t context;      // id in the LifetimeTable
  uint32_t thread;       // that allocated it
  uint32_t cpu;
  LifetimeClass predicted;
  bool first = false;  // of its context: taken beside the countdown (Engine::may_sample_first)

  double bytes() const { return weight * static_cast<double>(size); }  // that it stands for
};

class LiveSamples {
 public:
  static constexpr uint32_t kShards = 16;

  constexpr explicit LiveSamples(MetadataArena& arena) : arena_(arena) {}

  // Replaces a sample of the same address (whose free was never seen). False: no memory.
  bool insert(const LiveSample& sample, LiveSample* replaced = nullptr);

  // Removes the sample of the address, if there is one, and calls ended(sample) while the shard is
  // locked: nobody who locks all shards sees it neither alive nor dead.
  template <typename Ended>
  bool take(uintptr_t address, Ended&& ended) {
    return with_sample(address, [&](Shard& shard, uint32_t i) {
      shard.lock.assert_held();
      const LiveSample sample = shard.slots[i];
      remove(shard, i);
      ended(sample);
    });
  }

  // Calls f(sample) for the sample of the address, if there is one, under the shard's lock.
  template <typename F>
  bool look_up(uintptr_t address, F&& f) {
    return with_sample(address, [&](Shard& shard, uint32_t i) {
      shard.lock.assert_held();
      f(shard.slots[i]);
    });
  }

  // False: the address is not sampled. Otherwise f(sample as it was), under the shard's lock.
  template <typename F>
  bool resize(uintptr_t address, size_t new_size, F&& f) {
    return with_sample(address, [&](Shard& shard, uint32_t i) {
      shard.lock.assert_held();
      f(shard.slots[i]);
      shard.slots[i].size = new_size;
    });
  }
  bool resize(uintptr_t address, size_t new_size) {
    return resize(address, new_size, [](const LiveSample&) {});
  }

  // The sample of `from` is that of `to` from now on; whoever locks all shards meanwhile sees it at
  // one of the two. False: `from` is not sampled, or there is no memory and the sample is gone.
  bool move(uintptr_t from, uintptr_t to);

  // Calls f(const LiveSample&) for each sample, shard by shard under its lock: f must not call
  // back.
  template <typename F>
  void for_each(F&& f) {
    for (Shard& shard : shards_) {
      LockGuard guard(shard.lock);
      visit(shard, f);
    }
  }
  // The same for who holds lock_all().
  template <typename F>
  void for_each_locked(F&& f) const NO_THREAD_SAFETY_ANALYSIS {
    for (const Shard& shard : shards_) visit(shard, f);
  }
  size_t size_locked() const;  // for who holds lock_all()

  void clear();
  void lock_all();
  void unlock_all();
  void reset_locks_after_fork();
  bool is_consistent();

 private:
  static constexpr uint32_t kAbsent = ~uint32_t{0};

  struct alignas(kCacheLine) Shard {
    Lock lock{LockRank::sample_shard};
    uint32_t capacity GUARDED_BY(lock) = 0;  // 0 or a power of two
    uint32_t used GUARDED_BY(lock) = 0;
    LiveSample* slots GUARDED_BY(lock) = nullptr;  // address 0: empty
  };

  static uint64_t hash(uintptr_t address) { return (address >> 3) * 0x9E3779B97F4A7C15ull; }
  static uint32_t home(const Shard& shard, uintptr_t address) REQUIRES(shard.lock) {
    return static_cast<uint32_t>(hash(address) >> 28) & (shard.capacity - 1);
  }
  Shard& shard_of(uintptr_t address) { return shards_[hash(address) >> 60]; }
  static uint32_t find(const Shard& shard, uintptr_t address) REQUIRES(shard.lock);
  // f(shard, index) under the shard's lock; false: the address is not sampled.
  template <typename F>
  bool with_sample(uintptr_t address, F&& f) {
    Shard& shard = shard_of(address);
    LockGuard guard(shard.lock);
    const uint32_t i = find(shard, address);
    if (i == kAbsent) return false;
    f(shard, i);
    return true;
  }
  bool put(Shard& shard, const LiveSample& sample) REQUIRES(shard.lock);
  bool move_locked(Shard& source, uintptr_t from, Shard& target, uintptr_t to)
      REQUIRES(source.lock, target.lock);
  static void place(Shard& shard, const LiveSample& sample) REQUIRES(shard.lock);
  static void remove(Shard& shard, uint32_t i) REQUIRES(shard.lock);
  bool reserve_one(Shard& shard) REQUIRES(shard.lock);

  template <typename F>
  static void visit(const Shard& shard, F&& f) REQUIRES(shard.lock) {
    for (uint32_t i = 0; i < shard.capacity; ++i)
      if (shard.slots[i].address != 0) f(shard.slots[i]);
  }

  MetadataArena& arena_;
  Shard shards_[kShards];
};
static_assert(LiveSamples::kShards == 1u << (64 - 60), "shard_of takes the top four bits");

}  // namespace llamalloc
