// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_registry.h"

#include <gtest/gtest.h>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

// A thread may sleep through any number of calls; the next time it looks it must find one.
TEST(ThreadRegistry, CallsDoNotAddUpWhileAThreadSleeps) {
  FakePages system;
  MetadataArena arena(system);
  ThreadRegistry registry;
  ThreadCache* cache = registry.adopt(arena);
  cache->countdown = 1000;
  for (int second = 0; second < 100; ++second) {
    registry.request_housekeeping(Nanos::seconds(second));
    ASSERT_LT(cache->countdown.load(), 0) << second;
  }
  EXPECT_EQ(cache->countdown.load() + kCallIn, 1000);
  EXPECT_TRUE(cache->housekeeping_due.load());
}

// What a thread does not use of its cache has no memory.
TEST(ThreadRegistry, ANewCacheIsUntouchedButForItsBeginning) {
  FakePages system;
  MetadataArena arena(system);
  ThreadRegistry registry;
  ThreadCache* cache = registry.adopt(arena);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(cache) % kSmallPage, 0u);
  EXPECT_LE(offsetof(ThreadCache, magazines) + offsetof(Magazines, bins) +
                kSizeClasses * sizeof(Magazine),
            kSmallPage)
      << "the magazines of a group lie in the first page";
  EXPECT_EQ(system.resident(cache, sizeof(ThreadCache)), kSmallPage);
}

TEST(ThreadRegistry, AFreeCacheIsFoundAmongThoseInUse) {
  FakePages system;
  MetadataArena arena(system);
  HeapTables& tables = *new HeapTables;
  Heap heap(system, arena, tables);
  ThreadRegistry registry;
  ThreadCache* first = registry.adopt(arena);
  ThreadCache* second = registry.adopt(arena);
  EXPECT_NE(first, second);
  registry.retire(first, heap);
  EXPECT_EQ(registry.adopt(arena), first);
  EXPECT_NE(registry.adopt(arena), second);
  registry.forget_others(second);
  EXPECT_NE(registry.adopt(arena), second);
  delete &tables;
}

class Idle : public testing::Test {
 protected:
  ThreadCache* adopt(uint32_t id) {
    ThreadCache* cache = registry_.adopt(arena_);
    cache->thread_id = id;
    slots_[id] = cache;
    registry_.open_slot(cache, &slots_[id]);
    return cache;
  }
  size_t find(int before, int now) {
    return registry_.find_idle(Nanos::seconds(before), Nanos::seconds(now), found_, 2, &more_);
  }

  FakePages system_;
  MetadataArena arena_{system_};
  ThreadRegistry registry_;
  std::atomic<ThreadCache*> slots_[8]{};
  ThreadRegistry::Idle found_[2];
  bool more_ = false;
};

TEST_F(Idle, AreThreadsThatDidNotAnswer) {
  ThreadCache* one = adopt(1);
  EXPECT_EQ(find(9, 9), 0u);
  registry_.request_housekeeping(Nanos::seconds(5));
  EXPECT_EQ(find(4, 5), 0u) << "not asked long enough ago";
  EXPECT_TRUE(more_);
  ASSERT_EQ(find(5, 6), 1u);
  EXPECT_EQ(found_[0].cache, one);
  registry_.request_housekeeping(Nanos::seconds(6));
  EXPECT_EQ(find(5, 6), 1u) << "asked twice, for one thing";
  one->housekeeping_due = false;
  EXPECT_EQ(find(5, 6), 0u) << "it answered";
}

TEST_F(Idle, AreFoundInTurn) {
  for (uint32_t id = 1; id <= 5; ++id) adopt(id);
  registry_.request_housekeeping(Nanos::seconds(1));
  int seen[8] = {};
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(find(2, 2), 2u);
    EXPECT_TRUE(more_);
    for (const ThreadRegistry::Idle& idle : found_) ++seen[idle.thread_id];
  }
  for (uint32_t id = 1; id <= 5; ++id) EXPECT_EQ(seen[id], 2) << id;
}

TEST_F(Idle, AreOfferedOnceAndOnlyWhileTheyAreTheSame) {
  ThreadCache* one = adopt(1);
  ThreadRegistry::Idle idle{one, 1, 0};
  EXPECT_TRUE(registry_.offer(idle));
  EXPECT_EQ(slots_[1].load(), &empty_cache);
  EXPECT_EQ(one->custody.load(), Custody::offered);
  EXPECT_TRUE(registry_.offer(idle)) << "still";
  one->custody = Custody::own;
  EXPECT_FALSE(registry_.offer(idle)) << "taken back, but not yet written down";
  slots_[1] = one;
  EXPECT_FALSE(registry_.offer({one, 2, 0})) << "of another thread by now";
  registry_.close_slot(one);
  EXPECT_FALSE(registry_.offer(idle));
  EXPECT_EQ(slots_[1].load(), one);
}

TEST_F(Idle, AreNotTheEmptied) {
  ThreadCache* one = adopt(1);
  registry_.request_housekeeping(Nanos::seconds(1));
  one->custody = Custody::emptied;
  EXPECT_EQ(find(2, 2), 0u);
  EXPECT_FALSE(more_);
}

}  // namespace
}  // namespace llamalloc
