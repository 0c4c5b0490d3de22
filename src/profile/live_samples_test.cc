// SPDX-License-Identifier: Apache-2.0
#include "profile/live_samples.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "profile/profile_test_util.h"

namespace llamalloc {
namespace {

LiveSample sample_at(uintptr_t address, uint32_t context) {
  return {address, address % 1000, {1}, 1, address * 3, context, 1, 2, LifetimeClass::never};
}

TEST(LiveSamples, AgreesWithAHashMap) {
  MetadataArena arena(system_pages);
  LiveSamples live(arena);
  std::unordered_map<uintptr_t, uint32_t> oracle;
  std::mt19937 rng(3);
  for (uint32_t i = 0; i < 300'000; ++i) {
    // Grows to thousands, then shrinks, several times.
    const bool mostly_insert = i / 30'000 % 2 == 0;
    const uintptr_t address = 0x7F1200000000 + (rng() % 20'000 + 1) * 16;
    if (rng() % 4 != 0 ? mostly_insert : !mostly_insert) {
      ASSERT_TRUE(live.insert(sample_at(address, i)));
      oracle[address] = i;
    } else {
      uint32_t context = ~0u;
      const bool found = live.take(address, [&](const LiveSample& s) {
        EXPECT_EQ(s.address, address);
        EXPECT_EQ(s.context_key, address * 3);
        context = s.context;
      });
      ASSERT_EQ(found, oracle.count(address) == 1);
      if (found) {
        ASSERT_EQ(context, oracle[address]);
      }
      oracle.erase(address);
    }
    if (i % 10'000 == 0) {
      ASSERT_TRUE(live.is_consistent());
    }
  }
  size_t seen = 0;
  live.for_each([&](const LiveSample& s) { seen += oracle.at(s.address) == s.context; });
  EXPECT_EQ(seen, oracle.size());
  EXPECT_GT(seen, 100u);
  live.clear();
  EXPECT_TRUE(live.is_consistent());
  EXPECT_FALSE(live.take(oracle.begin()->first, [](const LiveSample&) {}));
}

// Within a shard and from one to another.
TEST(LiveSamples, AMovedSampleIsTheSameAtAnotherAddress) {
  MetadataArena arena(system_pages);
  LiveSamples live(arena);
  std::mt19937 rng(4);
  for (uint32_t i = 0; i < 1000; ++i) ASSERT_TRUE(live.insert(sample_at((i + 1) * 16, i)));
  for (uint32_t i = 0; i < 1000; ++i) {
    const uintptr_t from = (i + 1) * 16, to = 0x10000 + (rng() % 4096 * 1000 + i) * 16;
    ASSERT_TRUE(live.move(from, to));
    EXPECT_FALSE(live.move(from, to));
    EXPECT_TRUE(live.is_consistent());
    EXPECT_FALSE(live.take(from, [](const LiveSample&) {}));
    EXPECT_TRUE(live.take(to, [&](const LiveSample& s) {
      EXPECT_EQ(s.address, to);
      EXPECT_EQ(s.context, i);
      EXPECT_EQ(s.context_key, from * 3);
    }));
  }
}

TEST(LiveSamples, ResizeChangesTheSizeOnly) {
  MetadataArena arena(system_pages);
  LiveSamples live(arena);
  ASSERT_TRUE(live.insert(sample_at(64, 9)));
  EXPECT_TRUE(live.resize(64, 12345));
  EXPECT_FALSE(live.resize(128, 1));
  live.take(64, [](const LiveSample& s) {
    EXPECT_EQ(s.size, 12345u);
    EXPECT_EQ(s.context, 9u);
  });
}

TEST(LiveSamples, RefusesWithoutMemoryAndKeepsWhatItHas) {
  test::LimitedPages pages(1024 * 1024);
  MetadataArena arena(pages);
  LiveSamples live(arena);
  std::vector<uintptr_t> kept;
  for (uintptr_t a = 16; a < 16 * 200'000; a += 16)
    if (live.insert(sample_at(a, 1))) kept.push_back(a);
  ASSERT_GT(kept.size(), 1000u);
  ASSERT_LT(kept.size(), 100'000u);
  EXPECT_TRUE(live.is_consistent());
  for (const uintptr_t a : kept) ASSERT_TRUE(live.take(a, [](const LiveSample&) {}));
}

TEST(LiveSamples, ThreadsKeepTheirOwn) {
  MetadataArena arena(system_pages);
  LiveSamples live(arena);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uintptr_t i = 1; i <= 20'000; ++i) {
        const uintptr_t address = (i * 4 + t) * 16;
        if (!live.insert(sample_at(address, t))) ++wrong;
        if (i % 3 == 0) continue;
        live.take(address, [&](const LiveSample& s) { wrong += s.context != t; });
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(live.is_consistent());
  EXPECT_EQ(live.size_locked(), 4u * (20'000 / 3));
}

}  // namespace
}  // namespace llamalloc
