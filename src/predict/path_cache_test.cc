// SPDX-License-Identifier: Apache-2.0
#include "predict/path_cache.h"

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

class PathCacheTest : public testing::Test {
 protected:
  // The place; -1: none.
  int find(uintptr_t site, size_t shape) const {
    uint16_t place;
    const uint64_t path = PathCache::path_of(site);
    bool is_free;
    PathCache::Kind kind = cache_->find(path, shape, &place, &is_free);
    if (kind > PathCache::Kind::explored && !is_free)
      kind = cache_->find_beside(path, shape, &place);
    return kind == PathCache::Kind::decided ? place : -1;
  }
  // A site with the first slot of this one, which must be alone in the table.
  uintptr_t rival_of(uintptr_t site, size_t shape, uintptr_t after) {
    uint16_t place;
    while (true) {
      publish(++after, shape, 9);
      const bool beside =
          cache_->find(PathCache::path_of(after), shape, &place) != PathCache::Kind::decided;
      cache_->clear();
      publish(site, shape, 1);
      if (beside) return after;
    }
  }

  // A stack of eight words, as frames of two, three and one words left it.
  static constexpr CallPath kPath{3, {kCode, kCode + 1, kCode + 2, kCode + 3}, {16, 24, 8}};
  uintptr_t stack_[8] = {0, kCode + 1, 0, 0, kCode + 2, kCode + 3};
  uintptr_t limit() const { return reinterpret_cast<uintptr_t>(stack_ + 8); }
  void publish(uintptr_t site, size_t shape, uint16_t place) {
    cache_->publish(PathCache::path_of(site), shape, place);
  }
  void forget(uintptr_t site, size_t shape) { cache_->forget(PathCache::path_of(site), shape); }
  // From a site, past its callers; -1: none.
  int find_past(size_t shape, uintptr_t end) const {
    uint16_t place;
    const PathCache::Kind kind = cache_->find_past(
        PathCache::path_of(kCode), reinterpret_cast<uintptr_t>(stack_), end, shape, &place);
    if (kind == PathCache::Kind::explored) return kExplored + place;
    return kind == PathCache::Kind::decided ? place : -1;
  }
  static constexpr int kExplored = 1 << 16;

  std::unique_ptr<PathCache> cache_ = std::make_unique<PathCache>();
};

TEST_F(PathCacheTest, FindsWhatWasPublishedLast) {
  EXPECT_EQ(find(kCode, 64), -1);
  publish(kCode, 64, 0x8003);
  EXPECT_EQ(find(kCode, 64), 0x8003);
  publish(kCode, 64, 0);
  EXPECT_EQ(find(kCode, 64), 0);
  publish(kCode, 64, 0xffff);
  EXPECT_EQ(find(kCode, 64), 0xffff);
}

TEST_F(PathCacheTest, TellsSitesAndShapesApart) {
  publish(kCode, 64, 3);
  EXPECT_EQ(find(kCode + 1, 64), -1);
  EXPECT_EQ(find(kCode, 96), -1);
  EXPECT_EQ(find(kCode, 0), -1);
  publish(kCode, 96, 4);
  EXPECT_EQ(find(kCode, 64), 3);
  EXPECT_EQ(find(kCode, 96), 4);
}

TEST_F(PathCacheTest, ForgetsOneSite) {
  publish(kCode, 32, 1);
  const uintptr_t other = rival_of(kCode, 32, kCode);
  publish(other, 32, 2);
  forget(kCode, 32);
  EXPECT_EQ(find(kCode, 32), -1);
  EXPECT_EQ(find(other, 32), 2) << "which is beside";
  forget(other, 32);
  EXPECT_EQ(find(other, 32), -1);
}

TEST_F(PathCacheTest, ClearForgetsAll) {
  for (uintptr_t i = 0; i < 100'000; ++i) publish(kCode + i, 32, 1);
  cache_->clear();
  for (uintptr_t i = 0; i < 100'000; ++i) ASSERT_EQ(find(kCode + i, 32), -1) << i;
  publish(kCode, 32, 2);
  EXPECT_EQ(find(kCode, 32), 2);
}

// Of three sites with one first slot, the first stays, and of the others the last one is found.
TEST_F(PathCacheTest, WhatCameFirstIsNotPushedOut) {
  publish(kCode, 32, 1);
  const uintptr_t second = rival_of(kCode, 32, kCode), third = rival_of(kCode, 32, second);
  publish(second, 32, 2);
  EXPECT_EQ(find(kCode, 32), 1);
  EXPECT_EQ(find(second, 32), 2);
  publish(third, 32, 3);
  EXPECT_EQ(find(kCode, 32), 1);
  EXPECT_EQ(find(second, 32), -1);
  EXPECT_EQ(find(third, 32), 3);
  publish(kCode, 32, 4);
  EXPECT_EQ(find(kCode, 32), 4);
  EXPECT_EQ(find(third, 32), 3);
}

TEST_F(PathCacheTest, NorIsWhatIsBesideAndAtHome) {
  publish(kCode, 32, 1);
  const uintptr_t other = rival_of(kCode, 32, kCode);
  publish(kCode, 0, 5);
  publish(other, 32, 2);
  EXPECT_EQ(find(kCode, 32), 1);
  EXPECT_EQ(find(kCode, 0), 5);
  EXPECT_EQ(find(other, 32), -1) << "both are others'";
}

TEST_F(PathCacheTest, APathHoldsWhereItsSlotsAreOthers) {
  publish(kCode, 64, 1);
  const uintptr_t other = rival_of(kCode, 64, kCode + 8);
  cache_->clear();
  publish(other, 64, 5);
  cache_->publish_path(kPath, 64, 7);
  EXPECT_EQ(find_past(64, limit()), 7);
  EXPECT_EQ(find(other, 64), 5);
}

TEST_F(PathCacheTest, FollowsCallersUpTheStack) {
  EXPECT_EQ(find_past(64, limit()), -1);
  cache_->publish_path(kPath, 64, 7);
  EXPECT_EQ(find_past(64, limit()), 7);
  EXPECT_EQ(find(kCode, 64), -1) << "the site alone does not decide";
  EXPECT_EQ(find_past(96, limit()), -1) << "of another shape";
  for (const int caller : {1, 4, 5}) {
    const uintptr_t known = stack_[caller];
    stack_[caller] = kCode + 9;
    EXPECT_EQ(find_past(64, limit()), -1) << "caller at " << caller;
    stack_[caller] = known;
  }
  stack_[6] = kCode + 9;
  EXPECT_EQ(find_past(64, limit()), 7) << "what is above does not matter";
}

TEST_F(PathCacheTest, TellsCallersOfOneSiteApart) {
  CallPath other = kPath;
  other.frames[2] = kCode + 8;
  cache_->publish_path(kPath, 64, 7);
  cache_->publish_path({1, {kCode, kCode + 5}, {16}}, 64, 9);
  cache_->publish_path(other, 64, 11);
  EXPECT_EQ(find_past(64, limit()), 7);
  stack_[4] = kCode + 8;
  EXPECT_EQ(find_past(64, limit()), 11);
  stack_[1] = kCode + 5;
  EXPECT_EQ(find_past(64, limit()), 9) << "one caller decides here";
}

TEST_F(PathCacheTest, ASiteThatDecidesIsAPathWithoutCallers) {
  cache_->publish_path({0, {kCode}, {}}, 64, 7);
  EXPECT_EQ(find(kCode, 64), 7);
  EXPECT_EQ(find_past(64, limit()), 7);
  cache_->publish_path(kPath, 64, 9);
  EXPECT_EQ(find(kCode, 64), -1) << "its callers decide now";
  EXPECT_EQ(find_past(64, limit()), 9);
  forget(kCode, 64);
  EXPECT_EQ(find_past(64, limit()), 9) << "only what the site decides is forgotten";
  cache_->clear();
  EXPECT_EQ(find_past(64, limit()), -1);
}

TEST_F(PathCacheTest, TellsWhatIsExploredFromWhatIsDecided) {
  cache_->publish_path(kPath, 64, 7, PathCache::Kind::explored);
  EXPECT_EQ(find_past(64, limit()), kExplored + 7);
  cache_->publish_path({0, {kCode}, {}}, 64, 9, PathCache::Kind::explored);
  EXPECT_EQ(find(kCode, 64), -1);
  EXPECT_EQ(find_past(64, limit()), kExplored + 9);
  cache_->publish_path({0, {kCode}, {}}, 64, 9);
  EXPECT_EQ(find(kCode, 64), 9);
}

TEST_F(PathCacheTest, ReadsNothingBeyondTheLimit) {
  cache_->publish_path(kPath, 64, 7);
  const auto word = reinterpret_cast<uintptr_t>(stack_);
  EXPECT_EQ(find_past(64, word + 6 * 8), 7);
  EXPECT_EQ(find_past(64, word + 6 * 8 - 1), -1);
  EXPECT_EQ(find_past(64, word), -1);
}

TEST_F(PathCacheTest, LooksPastSixCallers) {
  CallPath path{CallPath::kMostCallers, {}, {}};
  for (int i = 0; i < CallPath::kMostCallers; ++i) path.bytes[i] = 8;
  for (int i = 0; i <= CallPath::kMostCallers; ++i) path.frames[i] = kCode + i;
  for (int i = 0; i < 8; ++i) stack_[i] = kCode + i + 1;
  cache_->publish_path(path, 64, 7);
  EXPECT_EQ(find_past(64, limit()), 7);
  stack_[5] = kCode;
  EXPECT_EQ(find_past(64, limit()), -1);
}

TEST_F(PathCacheTest, NeverFindsWhatWasNotPublished) {
  std::minstd_rand random(3);
  std::map<std::pair<uintptr_t, size_t>, int> published;
  for (int i = 0; i < 50'000; ++i) {
    const uintptr_t site = kCode + random() % 20'000;
    const size_t shape = random() % 4 * 32 + (random() % 2 ? 0xff00 : 0);
    const auto place = static_cast<uint16_t>(random());
    publish(site, shape, place);
    published[{site, shape}] = place;
  }
  int found = 0;
  for (const auto& [key, place] : published) {
    const int known = find(key.first, key.second);
    ASSERT_TRUE(known == -1 || known == place);
    found += known == place;
    ASSERT_EQ(find(key.first + 20'000, key.second), -1);
  }
  EXPECT_GT(found, 8'000) << "16,384 slots, nearly all in use";
  EXPECT_LE(found, 16'384);
}

TEST_F(PathCacheTest, ReadersSeeWholeSlotsWhileOthersWrite) {
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
        publish(site, writer * 32, place_for(site, writer * 32));
      }
    });
  threads.emplace_back([&] {
    for (std::minstd_rand random(9); found < 50'000 && wrong == 0;) {
      const uintptr_t site = kCode + random() % 10'000;
      const size_t shape = random() % 2 * 32;
      uint16_t place;
      if (cache_->find(PathCache::path_of(site), shape, &place) != PathCache::Kind::decided)
        continue;
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
