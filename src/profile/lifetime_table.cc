// SPDX-License-Identifier: Apache-2.0
#include "profile/lifetime_table.h"

namespace llamalloc {

bool LifetimeStats::add(MetadataArena& arena, const Death& death) {
  const Nanos t = death.lifetime.n < 0 ? Nanos{0} : death.lifetime;
  if (!lifetimes.add(arena, t)) return false;
  const double ns = static_cast<double>(t.n);
  if (count == 0 || t < min) min = t;
  if (count == 0 || t > max) max = t;
  ++count;
  const int c = static_cast<int>(class_of_lifetime(t));
  if (death.first)
    firsts[c] = static_cast<uint16_t>(firsts[c] + (firsts[c] < UINT16_MAX));
  else if (++deaths[c] == UINT32_MAX)
    for (int i = 0; i < kTimedClasses; ++i) deaths[i] /= 2, earlier[i] /= 2;
  weighted_count += death.weight;
  weighted_bytes += death.weight * static_cast<double>(death.size);
  sum += ns;
  sum_squares += ns * ns;
  same_thread += death.same_thread;
  same_cpu += death.same_cpu;
  return true;
}

void LifetimeStats::remove(const RecentDeath& death) {
  const Nanos t = death.lifetime.n < 0 ? Nanos{0} : death.lifetime;
  if (count == 0 || !lifetimes.remove(t)) return;
  const double ns = static_cast<double>(t.n);
  --count;
  const int c = static_cast<int>(class_of_lifetime(t));
  if (!death.first) --deaths[c];
  if (death.first && firsts[c] != 0) --firsts[c];
  weighted_count -= death.weight;
  weighted_bytes -= death.bytes();
  sum -= ns;
  sum_squares -= ns * ns;
  same_thread -= death.same_thread;
  same_cpu -= death.same_cpu;
  int first = 0, last = kLifetimeBuckets - 1;
  while (first < last && lifetimes.count(first) == 0) ++first;
  while (last > first && lifetimes.count(last) == 0) --last;
  if (const Nanos least = least_in_bucket(first); min < least) min = least;
  if (last + 1 == kLifetimeBuckets) return;
  if (const Nanos most = least_in_bucket(last + 1) - Nanos{1}; most < max) max = most;
}

Nanos LifetimeStats::average() const {
  if (count == 0) return {0};
  return {static_cast<int64_t>(sum / static_cast<double>(count) + 0.5)};
}

Nanos LifetimeStats::deviation() const {
  if (count == 0) return {0};
  const double mean = sum / static_cast<double>(count);
  const double variance = sum_squares / static_cast<double>(count) - mean * mean;
  return {variance <= 0 ? 0 : static_cast<int64_t>(__builtin_sqrt(variance) + 0.5)};
}

void LifetimeStats::clear() {
  LifetimeStats empty;
  empty.stack = stack;
  empty.bucket = bucket;
  empty.tag = tag;
  empty.lifetimes = lifetimes;
  empty.lifetimes.clear();
  *this = empty;
}

void LifetimeStats::subtract(const LifetimeStats& before) {
  count -= before.count;
  weighted_count -= before.weighted_count;
  weighted_bytes -= before.weighted_bytes;
  sum -= before.sum;
  sum_squares -= before.sum_squares;
  same_thread -= before.same_thread;
  same_cpu -= before.same_cpu;
  for (int c = 0; c < kTimedClasses; ++c) deaths[c] -= before.deaths[c];
  lifetimes.subtract(before.lifetimes);
  if (before.count == 0) return;
  int first = 0, last = kLifetimeBuckets - 1;
  while (first < last && lifetimes.count(first) == 0) ++first;
  while (last > first && lifetimes.count(last) == 0) --last;
  min = least_in_bucket(first);
  if (last + 1 < kLifetimeBuckets && least_in_bucket(last + 1) < max)
    max = least_in_bucket(last + 1);
}

bool LifetimeStats::is_consistent() const {
  uint64_t counted = 0;
  for (int b = 0; b < kLifetimeBuckets; ++b) counted += lifetimes.count(b);
  if (counted != count || same_thread > count || same_cpu > count) return false;
  return count == 0 || (min <= average() && average() <= max && weighted_count >= 1);
}

void LifetimeTable::bound(uint32_t most) {
  LockGuard guard(lock_);
  most_ = most;
}

uint32_t LifetimeTable::intern(uint32_t stack, uint64_t bucket, uint32_t tag) {
  const uint64_t hash = (bucket * 0xFF51AFD7ED558CCDull) ^ stack ^ uint64_t { tag } << 40;
  LockGuard guard(lock_);
  const uint32_t known = index_.find(hash, [&](uint32_t context) {
    return rows_[context].stack == stack && rows_[context].bucket == bucket &&
           rows_[context].tag == tag;
  });
  if (known != kNone || rows_.size() >= most_ || !index_.reserve_one(arena_)) return known;
  LifetimeStats row;
  row.stack = stack;
  row.tag = tag;
  row.bucket = bucket;
  row.epoch = epoch_;
  if (!rows_.push(arena_, row)) return kNone;
  index_.insert(hash, rows_.size() - 1);
  return rows_.size() - 1;
}

bool LifetimeTable::record(uint32_t context, const Death& death, Nanos died) {
  LockGuard guard(lock_);
  history_.change(arena_, context, -death.weight * static_cast<double>(death.size), died);
  if (!fresh(context).add(arena_, death)) return false;
  recent_.add({died, death.lifetime, death.weight, death.size, context, death.same_thread,
               death.same_cpu, death.first});
  return true;
}

bool LifetimeTable::keep_recent_deaths() {
  LockGuard guard(lock_);
  return recent_.open(arena_);
}

void LifetimeTable::live_changed(uint32_t context, double bytes, Nanos now) {
  if (!follows_live_.load(std::memory_order_relaxed)) return;
  LockGuard guard(lock_);
  history_.change(arena_, context, bytes, now);
}

void LifetimeTable::add_live(uint32_t context, double bytes, Nanos now) {
  history_.change(arena_, context, bytes, now);
}

bool LifetimeTable::start_history() {
  follows_live_.store(history_.start(arena_), std::memory_order_relaxed);
  return history_.is_on();
}

void LifetimeTable::clear() {
  LockGuard guard(lock_);
  recent_.clear();
  history_.clear();
  ++epoch_;
}

void LifetimeTable::fade(uint32_t context, bool halve) {
  LifetimeStats& row = fresh(context);
  for (int c = 0; c < kTimedClasses; ++c) {
    if (halve) row.deaths[c] -= row.earlier[c] - row.earlier[c] / 2, row.firsts[c] /= 2;
    row.earlier[c] = row.deaths[c];
  }
}

bool LifetimeTable::is_consistent() {
  LockGuard guard(lock_);
  for (uint32_t i = 0; i < rows_.size(); ++i)
    if (!rows_[i].is_consistent()) return false;
  return history_.is_consistent();
}

}  // namespace llamalloc
