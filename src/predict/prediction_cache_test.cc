// SPDX-License-Identifier: Apache-2.0
#include "predict/prediction_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <unordered_map>

namespace llamalloc {
namespace {

// A stack of two frames: the wrapper's, 32 bytes up to and with its return address, and its
// caller's.
struct FakeStack {
  uintptr_t words[64] = {};
  uintptr_t pointer() const { return reinterpret_cast<uintptr_t>(&words[0]); }
  uintptr_t high() const { return reinterpret_cast<uintptr_t>(&words[64]); }
};

class PredictionCacheTest : public testing::Test {
 protected:
  std::unique_ptr<PredictionCache> cache_ = std::make_unique<PredictionCache>();
};

TEST_F(PredictionCacheTest, KeysTellSiteHeightAndSizeApart) {
  FakeStack stack;
  const CallSite site{0x1234, stack.pointer()};
  const uint64_t key = cache_->context_key(site, stack.high(), 3);
  EXPECT_EQ(key, cache_->context_key(site, stack.high(), 3));
  EXPECT_NE(key, cache_->context_key(site, stack.high(), 4));
  EXPECT_NE(key, cache_->context_key({0x1235, stack.pointer()}, stack.high(), 3));
  EXPECT_NE(key, cache_->context_key({0x1234, stack.pointer() + 16}, stack.high(), 3));
}

TEST_F(PredictionCacheTest, KeysLookThroughWrappers) {
  FakeStack stack;
  const CallSite site{0x1234, stack.pointer()};
  stack.words[3] = 0xaaaa;
  const uint64_t shallow = cache_->context_key(site, stack.high(), 3);
  stack.words[3] = 0xbbbb;
  EXPECT_EQ(shallow, cache_->context_key(site, stack.high(), 3)) << "not known as a wrapper yet";
  cache_->sites.add(0x1234, 32);
  const uint64_t from_b = cache_->context_key(site, stack.high(), 3);
  stack.words[3] = 0xaaaa;
  EXPECT_NE(from_b, cache_->context_key(site, stack.high(), 3));
  // A frame that would end above the stack is not read.
  cache_->sites.add(0x1234, 64 * 8 + 8);
  EXPECT_EQ(shallow, cache_->context_key(site, stack.high(), 3));
}

TEST_F(PredictionCacheTest, AMissIsBegunOnceAndPublished) {
  const uint64_t key = cache_->context_key({1, 2}, 10, 3);
  EXPECT_FALSE(cache_->find(key).found);
  EXPECT_TRUE(cache_->begin(key, LifetimeClass::le_1s));
  EXPECT_FALSE(cache_->begin(key, LifetimeClass::le_1s));
  EXPECT_TRUE(cache_->find(key).pending);
  EXPECT_EQ(cache_->find(key).group, PageGroup::transient);
  cache_->publish(key, LifetimeClass::never);
  EXPECT_FALSE(cache_->find(key).pending);
  EXPECT_EQ(cache_->find(key).lifetime, LifetimeClass::never);
  EXPECT_EQ(cache_->find(key).group, PageGroup::permanent);
  cache_->forget(key);
  EXPECT_FALSE(cache_->find(key).found);
}

// Whatever the load, a find returns what was last published for that very key, or nothing.
TEST_F(PredictionCacheTest, NeverAnswersForAnotherKey) {
  std::mt19937_64 random(1);
  std::unordered_map<uint64_t, LifetimeClass> published;
  int found = 0;
  for (int i = 0; i < 30000; ++i) {
    const uint64_t key = cache_->context_key({random(), 0}, 1 << 20, 5);
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
