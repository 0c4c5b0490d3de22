// SPDX-License-Identifier: Apache-2.0
#include "predict/site_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace llamalloc {
namespace {

constexpr uintptr_t kCode = 0x5555'5555'0000;

class SiteCacheTest : public testing::Test {
 protected:
  // The place; -1: none.
  int find(uintptr_t site, size_t shape) const {
    uint16_t place;
    return cache_->find(site, shape, &place) ? place : -1;
  }

  std::unique_ptr<SiteCache> cache_ = std::make_unique<SiteCache>();
};

TEST_F(SiteCacheTest, FindsWhatWasPublishedLast) {
  EXPECT_EQ(find(kCode, 64), -1);
  cache_->publish(kCode, 64, 0x8003);
  EXPECT_EQ(find(kCode, 64), 0x8003);
  cache_->publish(kCode, 64, 0);
  EXPECT_EQ(find(kCode, 64), 0);
  cache_->publish(kCode, 64, 0xffff);
  EXPECT_EQ(find(kCode, 64), 0xffff);
}

TEST_F(SiteCacheTest, TellsSitesAndShapesApart) {
  cache_->publish(kCode, 64, 3);
  EXPECT_EQ(find(kCode + 1, 64), -1);
  EXPECT_EQ(find(kCode, 80), -1);
  EXPECT_EQ(find(kCode, 0), -1);
  cache_->publish(kCode, 80, 4);
  EXPECT_EQ(find(kCode, 64), 3);
  EXPECT_EQ(find(kCode, 80), 4);
}

TEST_F(SiteCacheTest, ForgetsOneSite) {
  cache_->publish(kCode, 16, 1);
  uintptr_t other = kCode;
  while (find(kCode, 16) == 1) cache_->publish(++other, 16, 2);
  cache_->forget(kCode, 16);
  EXPECT_EQ(find(other, 16), 2) << "which has taken its slot";
  cache_->forget(other, 16);
  EXPECT_EQ(find(other, 16), -1);
}

TEST_F(SiteCacheTest, ClearForgetsAll) {
  for (uintptr_t i = 0; i < 100'000; ++i) cache_->publish(kCode + i, 16, 1);
  cache_->clear();
  for (uintptr_t i = 0; i < 100'000; ++i) ASSERT_EQ(find(kCode + i, 16), -1) << i;
  cache_->publish(kCode, 16, 2);
  EXPECT_EQ(find(kCode, 16), 2);
}

// Of two sites in one slot, the last one is found, and the other is unknown.
TEST_F(SiteCacheTest, ACollisionReplaces) {
  cache_->publish(kCode, 16, 1);
  uintptr_t other = kCode;
  while (find(kCode, 16) == 1) cache_->publish(++other, 16, 2);
  EXPECT_EQ(find(kCode, 16), -1);
  EXPECT_EQ(find(other, 16), 2);
  cache_->publish(kCode, 16, 3);
  EXPECT_EQ(find(kCode, 16), 3);
  EXPECT_EQ(find(other, 16), -1);
}

TEST_F(SiteCacheTest, NeverFindsWhatWasNotPublished) {
  std::minstd_rand random(3);
  std::map<std::pair<uintptr_t, size_t>, int> published;
  for (int i = 0; i < 50'000; ++i) {
    const uintptr_t site = kCode + random() % 20'000;
    const size_t shape = random() % 4 * 16 + (random() % 2 ? 0xff00 : 0);
    const auto place = static_cast<uint16_t>(random());
    cache_->publish(site, shape, place);
    published[{site, shape}] = place;
  }
  int found = 0;
  for (const auto& [key, place] : published) {
    const int known = find(key.first, key.second);
    ASSERT_TRUE(known == -1 || known == place);
    found += known == place;
    ASSERT_EQ(find(key.first + 20'000, key.second), -1);
  }
  EXPECT_GT(found, 3'000) << "4,096 slots, nearly all in use";
  EXPECT_LE(found, 4'096);
}

TEST_F(SiteCacheTest, ReadersSeeWholeSlotsWhileOthersWrite) {
  // A place that follows from its key.
  const auto place_for = [](uintptr_t site, size_t shape) {
    return static_cast<uint16_t>(site * 31 + shape);
  };
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, found{0};
  std::vector<std::thread> threads;
  for (unsigned writer = 0; writer < 2; ++writer)
    threads.emplace_back([&, writer] {
      for (std::minstd_rand random(writer + 1); !stop;) {
        const uintptr_t site = kCode + random() % 10'000;
        cache_->publish(site, writer * 16, place_for(site, writer * 16));
      }
    });
  threads.emplace_back([&] {
    for (std::minstd_rand random(9); found < 50'000 && wrong == 0;) {
      const uintptr_t site = kCode + random() % 10'000;
      const size_t shape = random() % 2 * 16;
      uint16_t place;
      if (!cache_->find(site, shape, &place)) continue;
      ++found;
      if (place != place_for(site, shape)) ++wrong;
    }
    stop = true;
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace llamalloc
