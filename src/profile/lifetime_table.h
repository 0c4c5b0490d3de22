// SPDX-License-Identifier: Apache-2.0
// Statistics of dead samples, one row per context = (stack, size bucket, tag).
//
//   context id --> { stack, bucket | dead samples: count, weights, bytes, lifetimes, same thread }
//
// A row never moves and never goes away; clear() empties the statistics and keeps the ids. It only
// begins a new epoch, and a row is emptied when it is next met: a forked child clears, and would
// else copy each page of the table.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lifetime_class.h"
#include "base/units.h"
#include "os/arena.h"
#include "os/lock.h"
#include "profile/chunked_array.h"
#include "profile/id_index.h"
#include "profile/lifetime_histogram.h"
#include "profile/live_history.h"
#include "profile/recent_deaths.h"

namespace llamalloc {

// One sampled object at its end.
struct Death {
  size_t size;    // bytes asked for, last
  double weight;  // objects that it stands for (sampler.h)
  Nanos lifetime;
  bool same_thread;  // freed by the thread that allocated it
  bool same_cpu;
  bool first = false;  // LiveSample::first
};

struct LifetimeStats {
  uint32_t stack = 0;         // id in the StackTable
  uint32_t tag = 0;           // id in the TagTable
  uint64_t bucket = 0;        // size_bucket() of the size at allocation
  uint64_t count = 0;         // dead samples
  double weighted_count = 0;  // sum of weights
  double weighted_bytes = 0;  // sum of weight x size
  double sum = 0;             // of lifetimes, ns
  double sum_squares = 0;     // ns^2
  Nanos min{0};               // defined if count > 0
  Nanos max{0};
  uint64_t same_thread = 0;
  uint64_t same_cpu = 0;
  uint32_t deaths[kTimedClasses] = {};   // by lifetime class; what LifetimeTable::fade left of them
  uint32_t earlier[kTimedClasses] = {};  // those of them that were there at its last call
  uint16_t firsts[kTimedClasses] = {};   // deaths of firsts, which are not among the above
  uint32_t epoch = 0;                    // LifetimeTable::clear
  LifetimeHistogram lifetimes;

  // False: the histogram has no memory for it; nothing was counted.
  bool add(MetadataArena& arena, const Death& death);
  // Takes back a death that was added. min and max are then those of the histogram's buckets.
  void remove(const RecentDeath& death);
  Nanos average() const;    // 0 if count == 0
  Nanos deviation() const;  // standard deviation over the samples (population); 0 if count == 0
  void clear();
  // Takes away what an earlier copy of the row held. min and max are then those of the buckets.
  void subtract(const LifetimeStats& before);
  bool is_consistent() const;
};

class LifetimeTable {
 public:
  static constexpr uint32_t kNone = IdIndex::kNone;

  constexpr explicit LifetimeTable(MetadataArena& arena) : arena_(arena) {}

  // The id of the context, a new one if needed; kNone: full, or no memory.
  uint32_t intern(uint32_t stack, uint64_t bucket, uint32_t tag = 0);
  // No new contexts once there are so many.
  void bound(uint32_t most);
  // died: of late, for keep_recent_deaths.
  bool record(uint32_t context, const Death& death, Nanos died = {0});
  // From now on. False: no memory.
  bool keep_recent_deaths();
  const RecentDeaths& recent() const REQUIRES(lock_) { return recent_; }
  // The live bytes of a context change; record() takes those of the dead away by itself.
  // Without a time: at that of the last change.
  void live_changed(uint32_t context, double bytes, Nanos now = {0});
  // Follows live bytes from now on. False: no memory.
  bool start_history() REQUIRES(lock_);
  void add_live(uint32_t context, double bytes, Nanos now) REQUIRES(lock_);
  const LiveHistory& history() const REQUIRES(lock_) { return history_; }
  void clear();

  uint32_t size() const { return rows_.size(); }
  uint32_t stack_of(uint32_t context) const { return rows_[context].stack; }
  uint32_t tag_of(uint32_t context) const { return rows_[context].tag; }
  uint64_t bucket_of(uint32_t context) const { return rows_[context].bucket; }
  // Nothing died since the last clear.
  bool is_empty(uint32_t context) const REQUIRES(lock_) {
    return rows_[context].epoch != epoch_ || rows_[context].count == 0;
  }
  // The row itself.
  const LifetimeStats& row(uint32_t context) REQUIRES(lock_) { return fresh(context); }
  Lock& lock() const RETURN_CAPABILITY(lock_) { return lock_; }
  // A window of time is over: later deaths are new ones. halve: earlier ones count half from now
  // on.
  void fade(uint32_t context, bool halve) REQUIRES(lock_);
  bool is_consistent();

 private:
  LifetimeStats& fresh(uint32_t context) REQUIRES(lock_) {
    LifetimeStats& row = rows_[context];
    if (row.epoch != epoch_) row.clear(), row.epoch = epoch_;
    return row;
  }

  MetadataArena& arena_;
  mutable Lock lock_{LockRank::lifetime_table};
  uint32_t most_ GUARDED_BY(lock_) = kNone;
  uint32_t epoch_ GUARDED_BY(lock_) = 0;
  IdIndex index_ GUARDED_BY(lock_);
  RecentDeaths recent_ GUARDED_BY(lock_);
  LiveHistory history_ GUARDED_BY(lock_);
  std::atomic<bool> follows_live_{false};
  // 2 Mi contexts. What a context is, is read without the lock.
  ChunkedArray<LifetimeStats, 8, 8192> rows_ WRITTEN_UNDER(lock_);
};

}  // namespace llamalloc
