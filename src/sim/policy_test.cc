// SPDX-License-Identifier: Apache-2.0
// Every policy under random requests: no two live objects overlap, alignments hold, and what is
// lost adds up.
#include "sim/policy.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace llamalloc::sim {
namespace {

struct Object {
  uint64_t bytes;
  uint32_t thread;
};

class PolicyTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    policy_ = make_policy(GetParam());
    ASSERT_NE(policy_, nullptr);
  }

  void expect_alone(uint64_t address, uint64_t bytes) {
    const auto next = live_.lower_bound(address);
    ASSERT_TRUE(next == live_.end() || next->first >= address + bytes);
    ASSERT_TRUE(next == live_.begin() ||
                std::prev(next)->first + std::prev(next)->second.bytes <= address);
  }

  Request random_request() {
    const bool large = random_() % 20 == 0;
    const uint64_t size = 1 + random_() % (large ? 3 << 20 : 1 << random_() % 13);
    const auto aligned = static_cast<uint8_t>(random_() % 30 ? 4 : random_() % 17);
    return {size, now_, static_cast<uint32_t>(random_() % 5),
            static_cast<LifetimeClass>(random_() % kLifetimeClasses), aligned};
  }

  void allocate() {
    const Request request = random_request();
    const uint64_t address = policy_->allocate(request);
    ASSERT_NE(address, kNoAddress);
    ASSERT_EQ(address % request.alignment(), 0u);
    add(address, {request.size, request.thread});
  }

  void add(uint64_t address, Object object) {
    expect_alone(address, object.bytes);
    if (address < kDirectBase) policy_->ledger().touch(address, object.bytes);
    live_[address] = object;
    live_bytes_ += object.bytes;
  }

  std::map<uint64_t, Object>::iterator any() {
    const auto found = live_.lower_bound(random_() % (live_.rbegin()->first + 1));
    return found == live_.end() ? live_.begin() : found;
  }

  void free(std::map<uint64_t, Object>::iterator at) {
    const auto [address, object] = *at;
    policy_->free(address, object.bytes, object.thread, now_);
    live_bytes_ -= object.bytes;
    live_.erase(at);
  }

  void resize() {
    const auto at = any();
    const auto [address, object] = *at;
    Request request = random_request();
    request.alignment_log2 = 4;
    request.size = 1 + random_() % (2 * object.bytes);
    const uint64_t moved = policy_->resize(address, object.bytes, request);
    ASSERT_NE(moved, kNoAddress);
    live_bytes_ -= object.bytes;
    live_.erase(at);
    add(moved, {request.size, object.thread});
  }

  void expect_conservation() {
    ASSERT_EQ(live_bytes_ + policy_->losses().sum(), policy_->footprint().huge);
    ASSERT_LE(policy_->footprint().small, policy_->footprint().huge);
    ASSERT_LE(policy_->footprint().covered, policy_->footprint().resident);
  }

  void pass(Nanos time) {
    for (const Nanos until = now_ + time; now_ < until;) {
      policy_->advance(now_);
      now_ = std::min(until, policy_->next_work(now_));
    }
  }

  std::unique_ptr<Policy> policy_;
  std::mt19937_64 random_{3};
  std::map<uint64_t, Object> live_;
  uint64_t live_bytes_ = 0;
  Nanos now_ = Nanos::seconds(1000);
};

TEST_P(PolicyTest, NoTwoLiveObjectsOverlapAndLossesAddUp) {
  for (int i = 0; i < 60000; ++i) {
    const size_t target = i / 10000 % 2 ? 300 : 4000;  // the load goes up and down
    const uint64_t dice = random_() % 100;
    if (live_.empty() || dice < (live_.size() < target ? 60u : 40u)) {
      ASSERT_NO_FATAL_FAILURE(allocate());
    } else if (dice < 97) {
      free(any());
    } else {
      ASSERT_NO_FATAL_FAILURE(resize());
    }
    if (i % 100 == 0) pass(Nanos::millis(40));
    if (i % 500 == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_conservation());
    }
  }
  EXPECT_TRUE(policy_->is_consistent());
}

TEST_P(PolicyTest, WhenAllIsFreedAllGoesBack) {
  for (int i = 0; i < 20000; ++i) ASSERT_NO_FATAL_FAILURE(allocate());
  pass(Nanos::seconds(3));
  while (!live_.empty()) free(live_.begin());
  pass(Nanos::seconds(10));
  // A thread returns what it caches when it is next at work; the slot that it used stays.
  for (uint32_t thread = 0; thread < 5; ++thread) {
    const Request request{100, now_, thread, LifetimeClass::le_10ms, 4};
    add(policy_->allocate(request), {request.size, thread});
    free(live_.begin());
  }
  pass(Nanos::seconds(10));
  ASSERT_NO_FATAL_FAILURE(expect_conservation());
  // The paper's threads keep their open spans, two a class: 5 threads, 7 classes.
  const std::string policy = GetParam();
  const size_t kept = policy.starts_with("paper") ? 70 : policy == "llamalloc" ? 1 : 0;
  EXPECT_LE(policy_->ledger().backed_pages(), kept);
  EXPECT_EQ(policy_->direct().bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, PolicyTest,
                         testing::Values("llamalloc", "paper-k2", "paper-k4", "slabs-fullest",
                                         "slabs-lowest", "first-fit", "best-fit"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(PolicyNamesTest, EveryNameMakesAPolicyAndOthersDoNot) {
  for (const PolicyName& row : kPolicyNames) EXPECT_NE(make_policy(row.name), nullptr) << row.name;
  EXPECT_EQ(make_policy("worst-fit"), nullptr);
}

// What the choices are about: where a slot of a size goes when two spans have room.
TEST(PolicyChoiceTest, LowestTakesTheLowestAndFullestTheFullest) {
  for (const bool lowest : {true, false}) {
    const auto policy = make_policy(lowest ? "slabs-lowest" : "slabs-fullest");
    const Request request{1024, Nanos::seconds(1), 0, LifetimeClass::mixed, 4};
    std::vector<uint64_t> objects;
    for (int i = 0; i < 32; ++i) objects.push_back(policy->allocate(request));
    // 16 slots a span: one object stays in the first span, all but one in the second.
    for (int i = 1; i < 16; ++i) policy->free(objects[i], 1024, 0, request.now);
    policy->free(objects[20], 1024, 0, request.now);
    EXPECT_EQ(policy->allocate(request), lowest ? objects[1] : objects[20]);
  }
}

// The same for huge pages: runs of 512 KiB, four a page.
TEST(PolicyChoiceTest, LowestTakesTheLowestPageAndFullestTheFullest) {
  constexpr uint64_t kRun = 512 << 10;
  for (const bool lowest : {true, false}) {
    const auto policy = make_policy(lowest ? "slabs-lowest" : "slabs-fullest");
    const Request request{kRun, Nanos::seconds(1), 0, LifetimeClass::mixed, 4};
    std::vector<uint64_t> runs;
    for (int i = 0; i < 8; ++i) runs.push_back(policy->allocate(request));
    for (const int i : {0, 1, 2, 5}) policy->free(runs[i], kRun, 0, request.now);
    EXPECT_EQ(policy->allocate(request), lowest ? runs[0] : runs[5]);
  }
}

TEST(PolicyChoiceTest, FirstFitTakesTheLowestGapAndBestFitTheSmallest) {
  for (const bool first : {true, false}) {
    const auto policy = make_policy(first ? "first-fit" : "best-fit");
    const auto allocate = [&](uint64_t size) {
      return policy->allocate({size, Nanos::seconds(1), 0, LifetimeClass::mixed, 4});
    };
    const uint64_t wide = allocate(4096), wall = allocate(16), narrow = allocate(512);
    allocate(16);
    policy->free(wide, 4096, 0, Nanos::seconds(1));
    policy->free(narrow, 512, 0, Nanos::seconds(1));
    EXPECT_EQ(allocate(500), first ? wide : narrow);
    EXPECT_LT(wide, wall);
  }
}

}  // namespace
}  // namespace llamalloc::sim
