// SPDX-License-Identifier: Apache-2.0
#include "profile/profiler.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/size_bucket.h"
#include "profile/profile_test_util.h"
#include "profile/sampler.h"

namespace llamalloc {
namespace {

constexpr size_t kInterval = 4096;

StackTrace trace_of(std::initializer_list<uintptr_t> frames) {
  StackTrace trace;
  for (const uintptr_t frame : frames) trace.frames[trace.depth++] = frame;
  return trace;
}

const void* at(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

struct World {
  test::LimitedPages pages;
  MetadataArena arena{pages};
  Profiler profiler{arena, pages};
  test::TableNames names;

  std::vector<test::Sample> samples(Nanos now) {
    test::BufferSink sink;
    EXPECT_TRUE(profiler.write(sink, names, {now, now, false}));
    return test::read_samples(sink.text);
  }
  bool allocate(uintptr_t address, size_t size, uintptr_t site, Nanos now, uint32_t thread = 0) {
    return profiler.on_alloc(at(address), size, trace_of({site, 0x999}), site * 7,
                             LifetimeClass::le_10s, now, thread, 0);
  }
};

constexpr int64_t kSecond = 1'000'000'000;

// A store that lives until the program frees it at its end, and requests.
void serve(World& w) {
  ASSERT_TRUE(w.profiler.tell_teardown());
  w.names.add_name(1, "store");
  w.profiler.start(kInterval, {0});
  for (uintptr_t i = 0; i < 100; ++i) w.allocate(0x10000 + 16 * i, 1000, 1, {kSecond});
  for (int64_t i = 0; i < 500; ++i) {
    w.allocate(0x100, 1000, 2, {2 * kSecond + i * kSecond / 10});
    w.profiler.on_free(at(0x100), {2 * kSecond + i * kSecond / 10 + 1000}, 0, 0);
  }
}
void free_store(World& w, int64_t from, int64_t takes = kSecond) {
  for (uintptr_t i = 0; i < 100; ++i)
    w.profiler.on_free(at(0x10000 + 16 * i), {from + static_cast<int64_t>(i) * takes / 100}, 0, 0);
}

TEST(Profiler, WhatDiesOfTheProgramsEndCountsAsAlive) {
  World w;
  serve(w);
  free_store(w, 60 * kSecond);
  test::BufferSink sink;
  ASSERT_TRUE(w.profiler.write(sink, w.names, {{62 * kSecond}, {62 * kSecond}, true}));
  for (const test::Sample& sample : test::read_samples(sink.text)) {
    if (sample.stack[0] == "store") {
      EXPECT_EQ(sample.texts.count("lifetimes"), 0u);
      EXPECT_EQ(sample.texts.at("censored_ages"), "143:100");  // 59 s
      EXPECT_EQ(sample.numbers.at("sampled"), 100);
      EXPECT_EQ(sample.values[2], 0);  // deallocated
    } else {
      EXPECT_EQ(sample.numbers.at("sampled"), 500);
      EXPECT_EQ(sample.texts.count("censored_ages"), 0u);
    }
  }
}

TEST(Profiler, TheEndOfALargeProgramTakesItsTime) {
  World w;
  serve(w);
  free_store(w, 60 * kSecond, 20 * kSecond);
  test::BufferSink sink;
  ASSERT_TRUE(w.profiler.write(sink, w.names, {{80 * kSecond}, {80 * kSecond}, true}));
  for (const test::Sample& sample : test::read_samples(sink.text))
    EXPECT_EQ(sample.numbers.at("sampled"), sample.stack[0] == "store" ? 100 : 500);
  for (const test::Sample& sample : test::read_samples(sink.text))
    EXPECT_EQ(sample.texts.count("lifetimes"), sample.stack[0] == "store" ? 0u : 1u);
}

TEST(Profiler, TheLastFewObjectsAreNoTeardown) {
  World w;
  ASSERT_TRUE(w.profiler.tell_teardown());
  w.profiler.start(kInterval, {0});
  for (uintptr_t i = 0; i < 15; ++i) w.allocate(0x10000 + 16 * i, 1000, 1, {kSecond});
  for (uintptr_t i = 0; i < 15; ++i) w.profiler.on_free(at(0x10000 + 16 * i), {3 * kSecond}, 0, 0);
  test::BufferSink sink;
  ASSERT_TRUE(w.profiler.write(sink, w.names, {{4 * kSecond}, {4 * kSecond}, true}));
  for (const test::Sample& sample : test::read_samples(sink.text))
    EXPECT_EQ(sample.texts.count("censored_ages"), 0u);
}

TEST(Profiler, WhatDiesBeforeTheEndIsDead) {
  for (const bool at_exit : {true, false}) {
    World w;
    serve(w);
    free_store(w, (at_exit ? 55 : 60) * kSecond);  // 5 s before the end, or no end
    test::BufferSink sink;
    ASSERT_TRUE(w.profiler.write(sink, w.names, {{62 * kSecond}, {62 * kSecond}, at_exit}));
    for (const test::Sample& sample : test::read_samples(sink.text))
      EXPECT_EQ(sample.texts.count("censored_ages"), 0u);
  }
}

TEST(Profiler, DropsSamplesOfNewContextsBeyondTheBound) {
  World w;
  w.profiler.start(kInterval, {0});
  w.profiler.bound_contexts(10, 10);
  for (uintptr_t i = 0; i < 100; ++i) EXPECT_EQ(w.allocate(16 + 16 * i, 100, 1 + i, {1}), i < 10);
  EXPECT_EQ(w.profiler.stacks().stacks(), 10);
  EXPECT_LE(w.profiler.stacks().frames(), 11);
  EXPECT_FALSE(w.allocate(4096, 5000, 1, {2}));  // a known stack, and another size
  EXPECT_TRUE(w.allocate(8192, 100, 1, {2}));
  EXPECT_TRUE(w.profiler.is_consistent());
}

TEST(Profiler, DropsStacksThatAreMetOnceBeyondAFreeNumber) {
  World w;
  w.profiler.start(kInterval, {0});
  w.profiler.bound_contexts(1000, 10);
  for (uintptr_t i = 0; i < 500; ++i) EXPECT_EQ(w.allocate(16 + 16 * i, 100, 1 + i, {1}), i < 10);
  EXPECT_EQ(w.profiler.stacks().stacks(), 10);
  EXPECT_LE(w.profiler.stacks().frames(), 11);
  EXPECT_TRUE(w.allocate(1 << 20, 100, 5, {2}));      // a known one
  EXPECT_FALSE(w.allocate(2 << 20, 100, 7000, {2}));  // a new one
  EXPECT_TRUE(w.allocate(3 << 20, 100, 7000, {2}));   // that comes again
  EXPECT_EQ(w.profiler.stacks().stacks(), 11);
  EXPECT_TRUE(w.profiler.is_consistent());
}

// A recursion that never takes the same way twice. Its innermost frames decide.
TEST(Profiler, OfDeepStacksThatNeverComeAgainTheInnermostFramesCount) {
  World w;
  w.profiler.start(kInterval, {0});
  w.profiler.bound_contexts(1000, 10);
  const auto allocate = [&](uintptr_t i, int depth) {
    StackTrace trace;
    for (int f = 0; f < depth; ++f) trace.frames[f] = f < 8 ? 1 + static_cast<uintptr_t>(f) : 100;
    trace.frames[depth - 1] = 1000 + i;
    trace.depth = static_cast<uint16_t>(depth);
    return w.profiler.on_alloc(at(16 + 16 * i), 100, trace, 0, LifetimeClass::mixed, {1}, 1, 1);
  };
  for (uintptr_t i = 0; i < 500; ++i)
    EXPECT_EQ(allocate(i, 20), i != 10) << "seen once is not seen";
  EXPECT_EQ(w.profiler.dropped(), 1u);
  const StackTable& stacks = w.profiler.stacks();
  EXPECT_EQ(stacks.stacks(), 11u);
  ASSERT_EQ(stacks.depth(10), StackTable::kInnermost + 1);
  for (uint32_t f = 0; f < StackTable::kInnermost; ++f)
    EXPECT_EQ(stacks.address(stacks.frame(10, f)), f + 1);
  EXPECT_EQ(stacks.address(stacks.frame(10, StackTable::kInnermost)), 0u) << "not known";
  EXPECT_EQ(stacks.code(stacks.frame(10, StackTable::kInnermost)), 0u);
  for (uintptr_t i = 500; i < 600; ++i) EXPECT_FALSE(allocate(i, 8)) << "nothing is left out";
  EXPECT_TRUE(w.profiler.is_consistent());
}

TEST(Profiler, RecordsNothingUntilStartedAndFreesAfterStop) {
  World w;
  EXPECT_FALSE(w.allocate(16, 100, 1, {0}));
  w.profiler.start(kInterval, {10});
  EXPECT_TRUE(w.profiler.on());
  EXPECT_TRUE(w.allocate(16, 100, 1, {20}));
  w.profiler.stop();
  EXPECT_FALSE(w.allocate(32, 100, 1, {30}));
  EXPECT_FALSE(w.profiler.on_free(at(32), {40}, 0, 0).found);
  const Profiler::Freed freed = w.profiler.on_free(at(16), {1020}, 0, 0);
  EXPECT_TRUE(freed.found);
  EXPECT_EQ(freed.lifetime.n, 1000);
  EXPECT_EQ(freed.context_key, 7u);
  EXPECT_EQ(freed.predicted, LifetimeClass::le_10s);
  EXPECT_FALSE(w.profiler.on_free(at(16), {1020}, 0, 0).found);
  EXPECT_EQ(w.profiler.samples(), 1u);
  const auto samples = w.samples({2000});
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].texts.at("lifetimes"), "39:1");
}

TEST(Profiler, AClockThatStepsBackGivesLifetimeZero) {
  World w;
  w.profiler.start(kInterval, {0});
  w.allocate(16, 1, 1, {500});
  EXPECT_EQ(w.profiler.on_free(at(16), {400}, 0, 0).lifetime.n, 0);
  w.allocate(16, 1, 1, {500});
  EXPECT_EQ(w.samples({400}).at(0).texts.at("censored_ages"), "0:1");
}

TEST(Profiler, VisitsWhatIsAlive) {
  World w;
  w.profiler.start(kInterval, {0});
  w.allocate(16, 100, 1, {100});
  w.allocate(32, 200, 2, {200});
  w.profiler.on_resize(at(32), 300);
  w.profiler.on_resize(at(48), 300);
  w.profiler.on_free(at(16), {300}, 0, 0);
  int visited = 0;
  w.profiler.for_each_live({1200}, [&](const Profiler::Live& live) {
    ++visited;
    EXPECT_EQ(live.address, at(32));
    EXPECT_EQ(live.size, 300u);
    EXPECT_EQ(live.age.n, 1000);
    EXPECT_EQ(live.context_key, 14u);
    EXPECT_EQ(w.profiler.stacks().address(w.profiler.stacks().frame(live.stack, 0)), 2u);
  });
  EXPECT_EQ(visited, 1);
}

// One context by hand: sizes 1000 at an interval of 4096 weigh 1 / (1 - exp(-1000/4096)) = 4.6163.
TEST(Profiler, WritesTheValuesOfTheContract) {
  World w;
  w.profiler.start(kInterval, {0});
  for (uintptr_t i = 1; i <= 10; ++i) w.allocate(i * 16, 1000, 5, {0}, 1);
  for (uintptr_t i = 1; i <= 6; ++i)
    w.profiler.on_free(at(i * 16), {static_cast<int64_t>(i) * 1000}, i % 2, 0);
  const auto samples = w.samples({1'000'000});
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].values, (std::vector<int64_t>{46, 46163, 28, 27698, 18, 18465}));
  const std::map<std::string, int64_t> numbers = {{"bytes", 1024},        {"sampled", 10},
                                                  {"avg_lifetime", 3500}, {"min_lifetime", 1000},
                                                  {"max_lifetime", 6000}, {"stddev_lifetime", 1708},
                                                  {"same_thread", 3},     {"same_cpu", 6}};
  EXPECT_EQ(samples[0].numbers, numbers);
  EXPECT_EQ(samples[0].texts.at("lifetimes"), "39:1 43:1 46:1 47:1 49:1 50:1");
  EXPECT_EQ(samples[0].texts.at("censored_ages"), "79:4");
}

// From then on; what lived before counts, too.
TEST(Profiler, TellsPeakAndTimeLineOnRequest) {
  World w;
  w.profiler.start(kInterval, {0});
  for (uintptr_t i = 1; i <= 4; ++i) w.allocate(i * 16, 1000, 5, {0}, 1);
  EXPECT_EQ(w.samples({1}).at(0).numbers.count("peak_bytes"), 0u);
  ASSERT_TRUE(w.profiler.tell_history({10}));
  ASSERT_TRUE(w.profiler.tell_history({11}));  // does not count them again
  for (uintptr_t i = 5; i <= 10; ++i) w.allocate(i * 16, 1000, 5, {20}, 1);
  for (uintptr_t i = 1; i <= 9; ++i) w.profiler.on_free(at(i * 16), {30}, 1, 0);
  w.profiler.on_resize(at(10 * 16), 500);
  EXPECT_TRUE(w.profiler.is_consistent());
  const auto samples = w.samples({40});
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].numbers.at("peak_bytes"), 46163);
  EXPECT_EQ(samples[0].texts.at("live"), "1:2308");
}

TEST(Profiler, KeepsTagsApartInProfileAndSums) {
  World w;
  w.profiler.start(1, {0});
  const uint32_t get = w.profiler.tags().intern("get");
  const uint32_t set = w.profiler.tags().intern("set");
  for (uintptr_t i = 0; i < 6; ++i)
    w.profiler.on_alloc(at(16 + i), 100, trace_of({1, 2}), 0, LifetimeClass::mixed, {0}, 0, 0,
                        i < 3 ? get : set);
  w.allocate(160, 100, 1, {0});
  w.profiler.on_free(at(16), {10}, 0, 0);
  w.profiler.on_free(at(20), {10}, 0, 0);
  std::map<std::string, int64_t> sampled;
  for (const test::Sample& sample : w.samples({20}))
    sampled[sample.texts.count("tag") ? sample.texts.at("tag") : ""] +=
        sample.numbers.at("sampled");
  EXPECT_EQ(sampled, (std::map<std::string, int64_t>{{"", 1}, {"get", 3}, {"set", 3}}));
  Profiler::TagSum sums[3];
  w.profiler.sum_by_tag(sums, 3);
  EXPECT_DOUBLE_EQ(sums[get].live_objects, 2);
  EXPECT_DOUBLE_EQ(sums[get].freed_bytes, 100);
  EXPECT_DOUBLE_EQ(sums[set].live_bytes, 200);
  EXPECT_DOUBLE_EQ(sums[0].live_objects, 1);
}

TEST(Profiler, KnowsTheStackOfWhatIsAlive) {
  World w;
  w.profiler.start(kInterval, {0});
  w.allocate(16, 100, 1, {0});
  uint32_t stack = 99;
  EXPECT_TRUE(w.profiler.stack_of_live(at(16), &stack));
  EXPECT_EQ(w.profiler.stacks().depth(stack), 2u);
  EXPECT_FALSE(w.profiler.stack_of_live(at(17), &stack));
  w.profiler.on_free(at(16), {1}, 0, 0);
  EXPECT_FALSE(w.profiler.stack_of_live(at(16), &stack));
}

TEST(Profiler, AgreesWithANaiveRecord) {
  World w;
  struct Object {
    size_t size;
    double weight;
    int64_t born;
    uintptr_t site;
    uint64_t bucket;
  };
  struct Sums {
    double count, bytes;
    uint64_t n;
  };
  std::map<uintptr_t, Object> alive;
  std::map<std::pair<uintptr_t, uint64_t>, std::array<Sums, 2>> oracle;  // dead, censored
  const auto count = [&](const Object& o, int which) {
    Sums& sums = oracle[{o.site, o.bucket}][static_cast<size_t>(which)];
    sums.count += o.weight, sums.bytes += o.weight * static_cast<double>(o.size), ++sums.n;
  };
  for (uintptr_t site = 1; site <= 50; ++site) w.names.add_name(site, "f" + std::to_string(site));
  std::mt19937 rng(8);
  for (int64_t now = 0; now < 200'000; ++now) {
    if (now % 50'000 == 0) w.profiler.start(kInterval << (now / 50'000), {now});
    const uintptr_t address = (rng() % 3000 + 1) * 16, site = rng() % 50 + 1;
    const size_t size = size_t{1} << (rng() % 14), other = rng() % 5000;
    if (!alive.count(address)) {
      ASSERT_TRUE(w.allocate(address, size, site, {now}));
      const double weight = sample_weight(size, static_cast<double>(w.profiler.interval()));
      alive[address] = {size, weight, now, site, size_bucket(size)};
    } else if (rng() % 4 == 0) {
      w.profiler.on_resize(at(address), other);
      alive[address].size = other;
    } else {
      ASSERT_EQ(w.profiler.on_free(at(address), {now}, 0, 0).lifetime.n, now - alive[address].born);
      count(alive[address], 0);
      alive.erase(address);
    }
  }
  for (const auto& [address, object] : alive) count(object, 1);
  EXPECT_TRUE(w.profiler.is_consistent());
  const auto samples = w.samples({200'000});
  ASSERT_EQ(samples.size(), oracle.size());
  for (const test::Sample& s : samples) {
    ASSERT_EQ(s.stack.size(), 2u);
    const uintptr_t site = std::stoul(s.stack[0].substr(1));
    const auto& [dead, censored] = oracle.at({site, static_cast<uint64_t>(s.numbers.at("bytes"))});
    EXPECT_EQ(s.values[2], std::llround(dead.count));
    EXPECT_NEAR(static_cast<double>(s.values[3]), dead.bytes, 1);
    EXPECT_EQ(s.values[4], std::llround(censored.count));
    EXPECT_NEAR(static_cast<double>(s.values[5]), censored.bytes, 1);
    EXPECT_EQ(s.values[0], s.values[2] + s.values[4]);
    EXPECT_EQ(s.values[1], s.values[3] + s.values[5]);
    EXPECT_EQ(s.numbers.at("sampled"), static_cast<int64_t>(dead.n + censored.n));
  }
}

TEST(Profiler, DropsAndCountsWhenMemoryIsShort) {
  World w;
  w.profiler.start(kInterval, {0});
  w.pages.budget = 600 * 1024;
  uint64_t recorded = 0;
  for (uintptr_t i = 1; i <= 50'000; ++i) recorded += w.allocate(i * 16, 64, i, {0});
  EXPECT_EQ(w.profiler.samples(), recorded);
  EXPECT_EQ(w.profiler.dropped(), 50'000 - recorded);
  EXPECT_GT(w.profiler.dropped(), 0u);
  EXPECT_GT(recorded, 100u);
  EXPECT_TRUE(w.profiler.is_consistent());
  test::BufferSink sink;
  EXPECT_FALSE(w.profiler.write(sink, w.names, {{0}, {0}, false}));  // no memory for scratch
  w.pages.budget = SIZE_MAX;
  EXPECT_EQ(w.samples({0}).size(), recorded);
}

TEST(Profiler, WriteLeavesNoMemoryBehindAndReportsAFullDisk) {
  World w;
  w.profiler.start(kInterval, {0});
  for (uintptr_t i = 1; i <= 2000; ++i) w.allocate(i * 16, 64, i, {0});
  ASSERT_TRUE(w.profiler.name_frames(w.names));  // names are kept
  const size_t before = w.pages.mapped;
  test::BufferSink good;
  ASSERT_TRUE(w.profiler.write(good, w.names, {{9}, {9}, true}));
  for (const size_t room : {size_t{0}, size_t{20}, good.text.size() / 2, good.text.size() - 1}) {
    test::BufferSink full(room);
    EXPECT_FALSE(w.profiler.write(full, w.names, {{9}, {9}, true})) << room;
  }
  EXPECT_EQ(w.pages.mapped, before);
}

TEST(Profiler, AnEmptyProfileIsValid) {
  World w;
  EXPECT_TRUE(w.samples({5}).empty());
}

TEST(Profiler, ForgetsEverythingInAForkedChild) {
  World w;
  w.profiler.start(kInterval, {0});
  w.allocate(16, 64, 1, {0});
  w.allocate(32, 64, 2, {0});
  w.profiler.on_free(at(32), {10}, 0, 0);
  w.profiler.lock_all();
  w.profiler.reset_locks_after_fork();
  w.profiler.forget_all({100});
  EXPECT_TRUE(w.samples({200}).empty());
  EXPECT_FALSE(w.profiler.on_free(at(16), {200}, 0, 0).found);
  EXPECT_TRUE(w.allocate(48, 64, 2, {300}));
  EXPECT_EQ(w.samples({400}).size(), 1u);
  EXPECT_EQ(w.profiler.samples(), 1u);
}

TEST(Profiler, CountsEveryObjectOfManyThreads) {
  World w;
  w.profiler.start(kInterval, {0});
  constexpr uint32_t kThreads = 4, kObjects = 10'000;
  const auto work = [&](uint32_t t) {
    for (uint32_t i = 0; i < kObjects; ++i) {
      const uintptr_t address = (uintptr_t{i} * kThreads + t + 1) * 16;
      ASSERT_TRUE(w.allocate(address, 64, i % 100 + 1, {i}, t));
      if (i % 2 == 0) {
        ASSERT_TRUE(w.profiler.on_free(at(address), {i + 10}, t, 0).found);
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  // What is written meanwhile is whole: counts only grow.
  int64_t last = 0;
  for (int round = 0; round < 20; ++round) {
    int64_t sampled = 0;
    for (const test::Sample& s : w.samples({50'000})) sampled += s.numbers.at("sampled");
    EXPECT_GE(sampled, last);
    last = sampled;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(w.profiler.is_consistent());
  int64_t sampled = 0, same_thread = 0;
  for (const test::Sample& s : w.samples({50'000})) {
    sampled += s.numbers.at("sampled");
    same_thread += s.numbers.count("same_thread") ? s.numbers.at("same_thread") : 0;
  }
  EXPECT_EQ(sampled, kThreads * kObjects);
  EXPECT_EQ(same_thread, kThreads * kObjects / 2);
}

}  // namespace
}  // namespace llamalloc
