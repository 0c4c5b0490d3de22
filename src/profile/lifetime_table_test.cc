// SPDX-License-Identifier: Apache-2.0
#include "profile/lifetime_table.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "profile/profile_test_util.h"

namespace llamalloc {
namespace {

int bucket_by_definition(int64_t t) {
  return static_cast<int>(std::floor(4 * std::log2(static_cast<long double>(t))));
}

TEST(LifetimeBucket, IsFourTimesTheLogarithm) {
  for (int64_t t = 1; t < 100'000; ++t)
    ASSERT_EQ(lifetime_bucket({t}), bucket_by_definition(t)) << t;
  std::mt19937_64 rng(5);
  for (int i = 0; i < 100'000; ++i) {
    const int64_t t = static_cast<int64_t>(rng() >> (1 + rng() % 62));
    if (t > 0) {
      ASSERT_EQ(lifetime_bucket({t}), bucket_by_definition(t)) << t;
    }
  }
}

// ceil(2^62 2^(k/4)) in whole numbers: the first lifetime of a bucket, to the nanosecond.
TEST(LifetimeBucket, IsExactAtItsBounds) {
  const int64_t first[] = {5484249825272419512, 6521908912666391107, 7755900482342532475};
  for (int k = 1; k <= 3; ++k) {
    EXPECT_EQ(lifetime_bucket({first[k - 1]}), 248 + k);
    EXPECT_EQ(lifetime_bucket({first[k - 1] - 1}), 248 + k - 1);
  }
}

TEST(LifetimeBucket, HasTheValuesOfItsHeader) {
  EXPECT_EQ(lifetime_bucket({-5}), 0);
  EXPECT_EQ(lifetime_bucket({1}), 0);
  EXPECT_EQ(lifetime_bucket(Nanos::millis(1)), 79);
  EXPECT_EQ(lifetime_bucket(Nanos::seconds(3600)), 166);
  EXPECT_EQ(lifetime_bucket({INT64_MAX}), 251);
}

TEST(LifetimeStats, AgreesWithANaiveList) {
  MetadataArena arena(system_pages);
  LifetimeStats stats;
  EXPECT_TRUE(stats.is_consistent());
  std::vector<double> list;
  std::map<int, uint32_t> histogram;
  std::mt19937_64 rng(9);
  uint64_t same = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Death death{
        64, 3.5, {static_cast<int64_t>(rng() >> (24 + rng() % 30))}, rng() % 3 == 0, false};
    ASSERT_TRUE(stats.add(arena, death));
    list.push_back(static_cast<double>(death.lifetime.n));
    ++histogram[bucket_by_definition(std::max<int64_t>(1, death.lifetime.n))];
    same += death.same_thread;
  }
  double mean = 0, variance = 0;
  for (const double t : list) mean += t / static_cast<double>(list.size());
  for (const double t : list)
    variance += (t - mean) * (t - mean) / static_cast<double>(list.size());
  EXPECT_TRUE(stats.is_consistent());
  EXPECT_EQ(stats.count, 10'000u);
  EXPECT_DOUBLE_EQ(stats.weighted_count, 35'000);
  EXPECT_DOUBLE_EQ(stats.weighted_bytes, 35'000 * 64);
  EXPECT_NEAR(static_cast<double>(stats.average().n), mean, 1);
  EXPECT_NEAR(static_cast<double>(stats.deviation().n) / std::sqrt(variance), 1, 1e-9);
  EXPECT_EQ(static_cast<double>(stats.min.n), *std::min_element(list.begin(), list.end()));
  EXPECT_EQ(static_cast<double>(stats.max.n), *std::max_element(list.begin(), list.end()));
  EXPECT_EQ(stats.same_thread, same);
  EXPECT_EQ(stats.same_cpu, 0u);
  for (int b = 0; b < kLifetimeBuckets; ++b) EXPECT_EQ(stats.lifetimes.count(b), histogram[b]) << b;
}

TEST(LifetimeStats, CopiesOfAHistogramAreIndependent) {
  MetadataArena arena(system_pages);
  LifetimeHistogram a, b;
  ASSERT_TRUE(a.add(arena, {100}) && a.copy(arena, &b) && a.add(arena, {100}));
  EXPECT_EQ(a.count(lifetime_bucket({100})), 2u);
  EXPECT_EQ(b.count(lifetime_bucket({100})), 1u);
  a.clear();
  EXPECT_EQ(a.count(lifetime_bucket({100})), 0u);
}

// Programs have thousands of contexts of which a sample or two died.
// As from a buffer of 64 KiB for each of 100,000 requests a second, after eight days.
TEST(LifetimeStats, AFullCountIsHalvedTogetherWithTheOthers) {
  MetadataArena arena(system_pages);
  LifetimeStats stats;
  stats.deaths[0] = stats.earlier[0] = UINT32_MAX - 1;
  stats.deaths[5] = stats.earlier[5] = 1000;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(stats.add(arena, {8, 1, Nanos{1}, true, true}));
  EXPECT_EQ(stats.deaths[0], UINT32_MAX / 2 + 1);
  EXPECT_LE(stats.earlier[0], stats.deaths[0]);
  EXPECT_EQ(stats.deaths[5], 500u);
  EXPECT_EQ(stats.earlier[5], 500u);
}

TEST(LifetimeTable, AContextOfFewDeathsTakesLittle) {
  MetadataArena arena(system_pages);
  LifetimeTable table(arena);
  constexpr uint32_t kContexts = 4096;
  for (uint32_t stack = 0; stack < kContexts; ++stack)
    ASSERT_TRUE(table.record(table.intern(stack, 64), {64, 1, {1000}, true, true}));
  EXPECT_LT(arena.used_bytes() / kContexts, 320u);
}

TEST(LifetimeTable, GivesOneRowPerStackAndBucket) {
  MetadataArena arena(system_pages);
  LifetimeTable table(arena);
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> oracle;
  std::mt19937 rng(2);
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t stack = rng() % 500;
    const uint64_t bucket = uint64_t{16} << (rng() % 40);
    const uint32_t id = table.intern(stack, bucket);
    ASSERT_EQ(oracle.try_emplace({stack, bucket}, id).first->second, id);
    ASSERT_TRUE(table.record(id, {bucket, 1, {i}, true, true}));
  }
  EXPECT_EQ(table.size(), oracle.size());
  EXPECT_TRUE(table.is_consistent());
  uint64_t count = 0;
  for (const auto& [key, id] : oracle) {
    EXPECT_EQ(table.stack_of(id), key.first);
    EXPECT_EQ(table.row(id).bucket, key.second);
    count += table.row(id).count;
  }
  EXPECT_EQ(count, 20'000u);
  table.clear();
  EXPECT_TRUE(table.is_consistent());
  EXPECT_EQ(table.row(0).count, 0u);
  EXPECT_EQ(table.intern(table.row(3).stack, table.row(3).bucket), 3u);
}

long faults() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// A forked child has none of its parent's deaths, and does not copy the table for it.
TEST(LifetimeTable, ClearTouchesNoRow) {
  MetadataArena arena(system_pages);
  LifetimeTable table(arena);
  for (uint32_t i = 0; i < 30'000; ++i) table.record(table.intern(i, 16), {16, 1, {i}, true, true});
  const pid_t child = fork();
  if (child == 0) {
    const long before = faults();
    table.clear();
    _exit(faults() - before < 100 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// So many that some share the 32 bits of the hash that the index keeps.
TEST(LifetimeTable, TellsCollidingContextsApart) {
  MetadataArena arena(system_pages);
  LifetimeTable table(arena);
  for (uint32_t i = 0; i < 300'000; ++i) ASSERT_EQ(table.intern(7, uint64_t{i} * i * i), i);
}

TEST(LifetimeTable, RefusesWithoutMemory) {
  test::LimitedPages pages(256 * 1024);
  MetadataArena arena(pages);
  LifetimeTable table(arena);
  uint32_t made = 0;
  while (made < 100'000 && table.intern(made, 16) != LifetimeTable::kNone) ++made;
  EXPECT_GT(made, 100u);
  EXPECT_LT(made, 100'000u);
  EXPECT_EQ(table.intern(0, 16), 0u);
}

}  // namespace
}  // namespace llamalloc
