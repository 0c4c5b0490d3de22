// SPDX-License-Identifier: Apache-2.0
#include "profile/stack_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

#include "profile/profile_test_util.h"

namespace llamalloc {
namespace {

StackTrace trace_of(const std::vector<uintptr_t>& frames) {
  StackTrace trace;
  trace.depth = static_cast<uint16_t>(frames.size());
  std::copy(frames.begin(), frames.end(), trace.frames);
  return trace;
}

std::vector<uintptr_t> read(const StackTable& table, uint32_t id) {
  std::vector<uintptr_t> frames;
  for (uint32_t i = 0; i < table.depth(id); ++i)
    frames.push_back(table.address(table.frame(id, i)));
  return frames;
}

std::vector<uintptr_t> random_frames(std::mt19937& rng) {
  std::vector<uintptr_t> frames(rng() % 5 == 0 ? rng() % (kMaxFrames + 1) : rng() % 4);
  for (uintptr_t& frame : frames) frame = 0x7F0000000000 + rng() % 97 * 16;
  return frames;
}

TEST(StackTable, GivesOneIdPerStackAsAMapDoes) {
  test::LimitedPages pages;
  MetadataArena arena(pages);
  StackTable table(arena);
  std::map<std::vector<uintptr_t>, uint32_t> oracle;
  std::mt19937 rng(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto frames = random_frames(rng);
    const uint32_t id = table.intern(trace_of(frames));
    const auto [known, fresh] = oracle.try_emplace(frames, id);
    ASSERT_EQ(known->second, id);
    if (fresh) {
      ASSERT_EQ(id + 1, oracle.size());
    }
  }
  EXPECT_GT(oracle.size(), 10'000u);
  EXPECT_EQ(table.stacks(), oracle.size());
  EXPECT_EQ(table.frames(), 97u);
  for (const auto& [frames, id] : oracle) ASSERT_EQ(read(table, id), frames);
}

TEST(StackTable, HoldsMoreFramesThanTwoBytesCount) {
  MetadataArena arena(system_pages);
  StackTable table(arena);
  constexpr uintptr_t kFrames = 70'000;
  const auto of = [](uintptr_t i) {
    return std::vector<uintptr_t>{0x1000 + i * 16, 0x1000, 0x1000 + (kFrames - 1 - i) * 16};
  };
  for (uintptr_t i = 0; i < kFrames; ++i) ASSERT_EQ(table.intern(trace_of(of(i))), i);
  for (uintptr_t i = 0; i < kFrames; ++i) {
    ASSERT_EQ(read(table, static_cast<uint32_t>(i)), of(i));
    ASSERT_EQ(table.intern(trace_of(of(i))), i);
  }
}

TEST(StackTable, AStackTakesTwoBytesAFrame) {
  MetadataArena arena(system_pages);
  StackTable table(arena);
  std::vector<uintptr_t> frames(60, 0x1000);
  for (uintptr_t i = 0; i < 4096; ++i) {
    frames[0] = 0x1000 + i % 64 * 16;
    frames[1] = 0x1000 + i / 64 * 16;
    ASSERT_EQ(table.intern(trace_of(frames)), i);
  }
  EXPECT_LT(arena.used_bytes() / 4096, 180u);
}

TEST(StackTable, AnAddressInAnotherImageIsAnotherFrame) {
  MetadataArena arena(system_pages);
  StackTable table(arena);
  StackTrace trace = trace_of({0x1000, 0x2000});
  trace.images[0] = 7;
  const uint32_t first = table.intern(trace);
  EXPECT_EQ(table.intern(trace), first);
  EXPECT_EQ(table.image(table.frame(first, 0)), 7u);
  EXPECT_EQ(table.image(table.frame(first, 1)), 0u);
  trace.images[0] = 8;
  const uint32_t second = table.intern(trace);
  EXPECT_NE(first, second);
  EXPECT_NE(table.frame(first, 0), table.frame(second, 0));
  EXPECT_EQ(table.frame(first, 1), table.frame(second, 1));
  trace.images[0] = 7;
  EXPECT_EQ(table.intern(trace), first);
}

TEST(StackTable, ImagesWithoutEndShareTheirFrames) {
  MetadataArena arena(system_pages);
  StackTable table(arena);
  StackTrace trace = trace_of({0x1000});
  for (uint64_t image = 1; image <= 5000; ++image) {
    trace.images[0] = image;
    const uint32_t stack = table.intern(trace);
    ASSERT_EQ(table.intern(trace), stack);
    ASSERT_EQ(table.image(table.frame(stack, 0)), image < StackTable::kMostModules ? image : 0);
  }
  EXPECT_EQ(table.frames(), StackTable::kMostModules);
  EXPECT_EQ(table.stacks(), StackTable::kMostModules);
  trace.images[0] = 0;
  EXPECT_EQ(table.frame(table.intern(trace), 0), StackTable::kMostModules - 1);
}

// So many that some share the 32 bits of the hash that the index keeps.
TEST(StackTable, TellsCollidingStacksApart) {
  MetadataArena arena(system_pages);
  StackTable table(arena);
  for (uint32_t i = 0; i < 300'000; ++i) ASSERT_EQ(table.intern(trace_of({i % 600, i / 600})), i);
}

TEST(StackTable, RefusesWithoutMemoryAndKeepsWhatItHas) {
  test::LimitedPages pages(512 * 1024);
  MetadataArena arena(pages);
  StackTable table(arena);
  std::vector<uint32_t> ids;
  for (uintptr_t i = 1; i < 1'000'000; ++i) {
    const uint32_t id = table.intern(trace_of({i, i * 3, i * 5}));
    if (id == StackTable::kNone) break;
    ids.push_back(id);
  }
  ASSERT_GT(ids.size(), 1000u);
  ASSERT_LT(ids.size(), 900'000u);
  for (uintptr_t i = 1; i <= ids.size(); ++i)
    ASSERT_EQ(table.intern(trace_of({i, i * 3, i * 5})), ids[i - 1]);
}

TEST(StackTable, ThreadsAgreeOnIds) {
  MetadataArena arena(system_pages);
  StackTable table(arena);
  constexpr int kThreads = 4, kStacks = 3000;
  std::vector<std::vector<uint32_t>> ids(kThreads, std::vector<uint32_t>(kStacks));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kStacks; ++i) {
        const uintptr_t which = static_cast<uintptr_t>((i + t * 700) % kStacks + 1);
        const uint32_t id = table.intern(trace_of({which, 7, which * 9}));
        ASSERT_EQ(read(table, id), (std::vector<uintptr_t>{which, 7, which * 9}));
        ids[static_cast<size_t>(t)][which - 1] = id;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& seen : ids) EXPECT_EQ(seen, ids[0]);
  EXPECT_EQ(table.stacks(), static_cast<uint32_t>(kStacks));
}

}  // namespace
}  // namespace llamalloc
