// SPDX-License-Identifier: Apache-2.0
#include "profile/live_samples.h"

#include <cstring>

#include "base/check.h"

namespace llamalloc {

bool LiveSamples::insert(const LiveSample& sample, LiveSample* replaced) {
  DCHECK(sample.address != 0);
  Shard& shard = shard_of(sample.address);
  LockGuard guard(shard.lock);
  const uint32_t known = find(shard, sample.address);
  if (known != kAbsent && replaced != nullptr) *replaced = shard.slots[known];
  return put(shard, sample);
}

bool LiveSamples::put(Shard& shard, const LiveSample& sample) {
  const uint32_t known = find(shard, sample.address);
  if (known != kAbsent) return shard.slots[known] = sample, true;
  if (!reserve_one(shard)) return false;
  place(shard, sample);
  ++shard.used;
  return true;
}

bool LiveSamples::move(uintptr_t from, uintptr_t to) NO_THREAD_SAFETY_ANALYSIS {
  Shard& source = shard_of(from);
  Shard& target = shard_of(to);
  LockGuard first(&source < &target ? source.lock : target.lock);
  if (&source == &target) return move_locked(source, from, target, to);
  LockGuard second(&source < &target ? target.lock : source.lock);
  return move_locked(source, from, target, to);
}

bool LiveSamples::move_locked(Shard& source, uintptr_t from, Shard& target, uintptr_t to) {
  const uint32_t i = find(source, from);
  if (i == kAbsent) return false;
  LiveSample sample = source.slots[i];
  sample.address = to;
  remove(source, i);
  return put(target, sample);
}

uint32_t LiveSamples::find(const Shard& shard, uintptr_t address) {
  if (shard.capacity == 0) return kAbsent;
  uint32_t i = home(shard, address);
  while (shard.slots[i].address != 0) {
    if (shard.slots[i].address == address) return i;
    i = (i + 1) & (shard.capacity - 1);
  }
  return kAbsent;
}

void LiveSamples::place(Shard& shard, const LiveSample& sample) {
  uint32_t i = home(shard, sample.address);
  while (shard.slots[i].address != 0) i = (i + 1) & (shard.capacity - 1);
  shard.slots[i] = sample;
}

// Knuth, volume 3, 6.4, algorithm R: fill the hole from behind with whatever may lie there.
void LiveSamples::remove(Shard& shard, uint32_t hole) {
  const uint32_t mask = shard.capacity - 1;
  for (uint32_t i = (hole + 1) & mask; shard.slots[i].address != 0; i = (i + 1) & mask) {
    const uint32_t from_home = (i - home(shard, shard.slots[i].address)) & mask;
    const uint32_t from_hole = (i - hole) & mask;
    if (from_home < from_hole) continue;  // its home lies behind the hole
    shard.slots[hole] = shard.slots[i];
    hole = i;
  }
  shard.slots[hole].address = 0;
  --shard.used;
}

bool LiveSamples::reserve_one(Shard& shard) {
  if ((shard.used + 1) * uint64_t{3} <= shard.capacity * uint64_t{2}) return true;
  const uint32_t capacity = shard.capacity == 0 ? 32 : shard.capacity * 2;
  LiveSample* slots = capacity == 0 ? nullptr : arena_.make_array<LiveSample>(capacity);
  if (slots == nullptr) return false;
  const uint32_t old_capacity = shard.capacity;
  const LiveSample* old = shard.slots;
  shard.slots = slots;
  shard.capacity = capacity;
  for (uint32_t i = 0; i < old_capacity; ++i)
    if (old[i].address != 0) place(shard, old[i]);
  return true;
}

size_t LiveSamples::size_locked() const NO_THREAD_SAFETY_ANALYSIS {
  size_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.used;
  return sum;
}

void LiveSamples::clear() {
  for (Shard& shard : shards_) {
    LockGuard guard(shard.lock);
    if (shard.used != 0)
      memset(static_cast<void*>(shard.slots), 0, shard.capacity * sizeof(LiveSample));
    shard.used = 0;
  }
}

void LiveSamples::lock_all() NO_THREAD_SAFETY_ANALYSIS {
  for (Shard& shard : shards_) shard.lock.lock();
}
void LiveSamples::unlock_all() NO_THREAD_SAFETY_ANALYSIS {
  for (Shard& shard : shards_) shard.lock.unlock();
}
void LiveSamples::reset_locks_after_fork() {
  for (Shard& shard : shards_) shard.lock.reset();
}

bool LiveSamples::is_consistent() {
  bool good = true;
  for (Shard& shard : shards_) {
    LockGuard guard(shard.lock);
    uint32_t seen = 0;
    visit(shard, [&](const LiveSample& sample) {
      shard.lock.assert_held();
      ++seen;
      const uint32_t i = find(shard, sample.address);
      good =
          good && i != kAbsent && &shard.slots[i] == &sample && &shard_of(sample.address) == &shard;
    });
    good = good && seen == shard.used && seen * uint64_t{3} <= shard.capacity * uint64_t{2};
  }
  return good;
}

}  // namespace llamalloc
