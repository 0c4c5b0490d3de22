// SPDX-License-Identifier: Apache-2.0
#include "predict/prediction_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>

namespace llamalloc {
namespace {

// A stack of two frames: the wrapper's, 32 bytes up to and with its return address, and its
// caller's.
struct FakeStack {
  uintptr_t words[64] = {};
  uintptr_t pointer() const { return reinterpret_cast<uintptr_t>(&words[0]); }
  StackBounds bounds() const { return {pointer(), reinterpret_cast<uintptr_t>(&words[64])}; }
};

class PredictionCacheTest : public testing::Test {
 protected:
  std::unique_ptr<PredictionCache> cache_ = std::make_unique<PredictionCache>();
};

TEST_F(PredictionCacheTest, KeysTellSiteHeightAndSizeApart) {
  FakeStack stack;
  const CallSite site{0x1234, stack.pointer()};
  const uint64_t key = cache_->context_key(site, stack.bounds(), 3);
  EXPECT_EQ(key, cache_->context_key(site, stack.bounds(), 3));
  EXPECT_NE(key, cache_->context_key(site, stack.bounds(), 4));
  EXPECT_NE(key, cache_->context_key({0x1235, stack.pointer()}, stack.bounds(), 3));
  EXPECT_NE(key, cache_->context_key({0x1234, stack.pointer() + 16}, stack.bounds(), 3));
}

TEST_F(PredictionCacheTest, KeysLookThroughWrappers) {
  FakeStack stack;
  const CallSite site{0x1234, stack.pointer()};
  stack.words[3] = 0xaaaa;
  const uint64_t shallow = cache_->context_key(site, stack.bounds(), 3);
  stack.words[3] = 0xbbbb;
  EXPECT_EQ(shallow, cache_->context_key(site, stack.bounds(), 3)) << "not known as a wrapper yet";
  cache_->sites.add(0x1234, 32);
  const uint64_t from_b = cache_->context_key(site, stack.bounds(), 3);
  stack.words[3] = 0xaaaa;
  EXPECT_NE(from_b, cache_->context_key(site, stack.bounds(), 3));
  // A frame that would end above the stack is not read.
  cache_->sites.add(0x1234, 64 * 8 + 8);
  EXPECT_EQ(shallow, cache_->context_key(site, stack.bounds(), 3));
}

// On a fiber a frame may reach to the end of the page and no further, even if that is what was
// learned of the wrapper.
TEST_F(PredictionCacheTest, KeysReadOnePageOfAStackThatIsNotTheThreads) {
  char* const memory = static_cast<char*>(
      mmap(nullptr, 2 * kSmallPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(memory + kSmallPage, kSmallPage, PROT_NONE), 0);
  const uintptr_t end = reinterpret_cast<uintptr_t>(memory) + kSmallPage;
  const StackBounds own{end + (size_t{1} << 20), end + (size_t{2} << 20)};
  uintptr_t& last = reinterpret_cast<uintptr_t*>(end)[-1];
  const auto key = [&](uintptr_t below) {
    return cache_->context_key({0x1234, end - below}, own, 3);
  };
  cache_->sites.add(0x1234, 64);
  last = 0xaaaa;
  const uint64_t from_a = key(64);
  last = 0xbbbb;
  EXPECT_NE(from_a, key(64)) << "the last word of the page is read";
  cache_->sites.add(0x1234, 72);
  EXPECT_EQ(key(64), key(64));
  cache_->sites.add(0x1234, 16 * kSmallPage);
  for (uintptr_t below : {0, 8, 64, 4088, 4096}) EXPECT_EQ(key(below), key(below));
  munmap(memory, 2 * kSmallPage);
}

TEST_F(PredictionCacheTest, KeysOfAnotherStackAgreeWithThoseOfTheNext) {
  const StackBounds own{size_t{1} << 40, size_t{1} << 41};
  const auto key = [&](uintptr_t sp) { return cache_->context_key({0x1234, sp}, own, 3); };
  EXPECT_EQ(key(10 * kSmallPage - 64), key(17 * kSmallPage - 64));
  EXPECT_NE(key(10 * kSmallPage - 64), key(10 * kSmallPage - 80));
}

TEST_F(PredictionCacheTest, AMissIsBegunOnceAndPublished) {
  const uint64_t key = cache_->context_key({1, 2}, {0, 10}, 3);
  EXPECT_FALSE(cache_->find(key).found);
  EXPECT_TRUE(cache_->begin(key, LifetimeClass::le_3s));
  EXPECT_FALSE(cache_->begin(key, LifetimeClass::le_3s));
  EXPECT_TRUE(cache_->find(key).pending);
  EXPECT_EQ(cache_->find(key).group, PageGroup::transient);
  cache_->publish(key, LifetimeClass::never);
  EXPECT_FALSE(cache_->find(key).pending);
  EXPECT_EQ(cache_->find(key).lifetime, LifetimeClass::never);
  EXPECT_EQ(cache_->find(key).group, PageGroup::permanent);
  cache_->forget(key);
  EXPECT_FALSE(cache_->find(key).found);
}

TEST_F(PredictionCacheTest, KeysAreForgottenByTheirMarks) {
  const auto key = [&](uintptr_t site) { return cache_->context_key({site, 2}, {0, 10}, 3); };
  cache_->publish(key(1), LifetimeClass::le_3s);
  cache_->publish(key(2), LifetimeClass::le_3s, 2);
  cache_->publish(key(3), LifetimeClass::le_3s, 2 | 128);
  cache_->begin(key(4), LifetimeClass::le_3s);
  EXPECT_EQ(cache_->find(key(3)).marks, 2 | 128);
  EXPECT_EQ(cache_->find(key(3)).group, PageGroup::transient);
  for (const uintptr_t site : {1, 3}) {
    PageGroup group;
    ASSERT_TRUE(cache_->find_quickly({site, 2}, 10, 3, &group));
    EXPECT_EQ(group, PageGroup::transient);
  }
  EXPECT_EQ(cache_->forget_marked(4), 0u);
  EXPECT_EQ(cache_->forget_marked(128), 1u);
  EXPECT_FALSE(cache_->find(key(3)).found);
  EXPECT_TRUE(cache_->find(key(2)).found);
  EXPECT_EQ(cache_->forget_marked(255), 1u);
  EXPECT_TRUE(cache_->find(key(1)).found);
  EXPECT_TRUE(cache_->find(key(4)).pending);
}

// A thread that allocates meanwhile publishes a path once, when its key is a miss.
TEST_F(PredictionCacheTest, WhatIsKnownAfterAClearHasItsPath) {
  constexpr uintptr_t kSites = 16;
  constexpr size_t kShape = 32;
  std::atomic<bool> ends{false};
  const auto key_of = [](uintptr_t site) {
    return PredictionCache::site_key({0x1000 + site * 64, 0}, 1);
  };
  const auto path_of = [](uintptr_t site) { return PathCache::path_of(0x1000 + site * 64); };
  std::thread allocates([&] {
    while (!ends.load())
      for (uintptr_t site = 0; site < kSites; ++site) {
        if (cache_->find(key_of(site)).found) continue;
        cache_->publish(key_of(site), LifetimeClass::le_3s);
        cache_->decided.publish(path_of(site), kShape, 7);
      }
  });
  const auto has_path = [&](uintptr_t site) {
    uint16_t place;
    return cache_->decided.find(path_of(site), kShape, &place) == PathCache::Kind::decided;
  };
  int without = 0;
  for (int i = 0; i < 200 && without == 0; ++i) {
    cache_->clear();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (uintptr_t site = 0; site < kSites; ++site) {
      while (!has_path(site) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      without += !has_path(site);
    }
  }
  ends = true;
  allocates.join();
  EXPECT_EQ(without, 0) << "known by key alone";
}

TEST_F(PredictionCacheTest, SitesAreForgottenByTheirAddress) {
  cache_->sites.add(0x7fff'1234'5678, 64);
  cache_->sites.add(0x5555'0000'1111, 512 * 1024 - 8);
  cache_->sites.forget_if([](uintptr_t site) { return site == 0x5555'0000'1111; });
  EXPECT_EQ(cache_->sites.frame_bytes(0x7fff'1234'5678), 64u);
  EXPECT_EQ(cache_->sites.frame_bytes(0x5555'0000'1111), 0u);
}

// Whatever the load, a find returns what was last published for that very key, or nothing.
TEST_F(PredictionCacheTest, NeverAnswersForAnotherKey) {
  std::mt19937_64 random(1);
  std::unordered_map<uint64_t, LifetimeClass> published;
  int found = 0;
  for (int i = 0; i < 30000; ++i) {
    const uint64_t key = cache_->context_key({random(), 0}, {0, 1 << 20}, 5);
    const auto lifetime = static_cast<LifetimeClass>(random() % kLifetimeClasses);
    cache_->publish(key, lifetime);
    published[key] = lifetime;
  }
  for (auto [key, lifetime] : published) {
    const Prediction p = cache_->find(key);
    if (!p.found) continue;
    ++found;
    ASSERT_EQ(p.lifetime, lifetime);
    ASSERT_EQ(p.group, group_of(lifetime));
  }
  EXPECT_GT(found, 15000) << "32,768 slots hold most of 30,000 keys";
}

}  // namespace
}  // namespace llamalloc
