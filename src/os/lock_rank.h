// SPDX-License-Identifier: Apache-2.0
// The order of all locks of the process. A thread that holds a lock takes only locks of a higher
// rank. Of some ranks it may take several, in order of rising address. So deadlock is impossible.
// The check build checks each lock() (lock.h), except in a thread that holds all locks for a fork.
#pragma once

#include <cstdint>

namespace llamalloc {

// LOCK_RANK(name, several at once)          what it guards; when several are taken
#define LOCK_RANKS                                                                          \
  LOCK_RANK(work, false)           /* a round of background work; held around a fork */     \
  LOCK_RANK(control, false)        /* descriptors of the control socket's clients */        \
  LOCK_RANK(registry, false)       /* the list of thread caches */                          \
  LOCK_RANK(profile_naming, false) /* names of frames; nobody who allocates waits for it */ \
  LOCK_RANK(sample_shard, true)    /* live samples: a move between two, a copy of all */    \
  LOCK_RANK(lifetime_table, false) /* lifetimes by context */                               \
  LOCK_RANK(trace_naming, false)   /* names in a trace */                                   \
  LOCK_RANK(trace_late, false)     /* the log of threads past their exit handlers */        \
  LOCK_RANK(trace_logs, false)     /* the list of threads' logs */                          \
  LOCK_RANK(trace_tables, false)   /* stacks written to a trace */                          \
  LOCK_RANK(stack_table, false)    /* interned stacks */                                    \
  LOCK_RANK(tag_table, false)      /* names of tags */                                      \
  LOCK_RANK(trace_output, false)   /* the file of a trace */                                \
  LOCK_RANK(bin, true)             /* spans with free slots; all of them for a fork */      \
  LOCK_RANK(page_set, true)        /* pages of a group: one moves: two; a fork: all */      \
  LOCK_RANK(pool, false)           /* empty huge pages */                                   \
  LOCK_RANK(direct, false)         /* mappings of large objects */                          \
  LOCK_RANK(model_names, false)    /* modules whose names are being read */                 \
  LOCK_RANK(arena, false)          /* memory for our own tables */

enum class LockRank : uint8_t {
#define LOCK_RANK(name, several) name,
  LOCK_RANKS
#undef LOCK_RANK
};

struct LockRankRow {
  const char* name;
  bool several;  // at once, by rising address
};
inline constexpr LockRankRow kLockRankRows[] = {
#define LOCK_RANK(name, several) {#name, several},
    LOCK_RANKS
#undef LOCK_RANK
};
inline constexpr int kLockRanks = sizeof(kLockRankRows) / sizeof(LockRankRow);

constexpr const LockRankRow& row(LockRank rank) {
  return kLockRankRows[static_cast<int>(rank)];
}

}  // namespace llamalloc
