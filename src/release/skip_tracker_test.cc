// SPDX-License-Identifier: Apache-2.0
#include "release/skip_tracker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace llamalloc {
namespace {

constexpr size_t kB = kBlockSize;
constexpr uint32_t kStart = 1000;  // seconds

// Keeps every second and every skip, and looks at all of them each time: no ring, mark or join.
class Naive {
 public:
  void use(uint32_t epoch, size_t bytes) {
    reach(epoch);
    used_ = bytes;
    most_used_.back() = std::max(most_used_.back(), bytes);
  }
  void skip(uint32_t epoch, size_t low, size_t high) {
    if (high > low) skips_.push_back({epoch, low, high});
  }
  uint64_t skipped() const {
    uint64_t sum = 0;
    for (const Skip& skip : skips_) sum += skip.high - skip.low;
    return sum;
  }
  // early: as if each had been made so many seconds before.
  uint64_t right(uint32_t last, uint32_t window, uint32_t early = 0) {
    reach(last);
    uint64_t sum = 0;
    for (const Skip& skip : skips_) {
      const uint32_t end = std::min(last, skip.epoch + window);
      size_t reached = skip.low;
      for (uint32_t second = std::max(kStart, skip.epoch + 1 - early); second <= end; ++second)
        reached = std::max(reached, most_used_[second - kStart]);
      sum += std::min(reached, skip.high) - skip.low;
    }
    return sum;
  }
  // Of the skips whose window is over, what was not right.
  uint64_t wrong(uint32_t last, uint32_t window) {
    Naive over = *this;
    std::erase_if(over.skips_, [&](const Skip& skip) { return skip.epoch + window > last; });
    return over.skipped() - over.right(last, window);
  }

 private:
  struct Skip {
    uint32_t epoch;
    size_t low, high;
  };
  // A quiet second uses what the one before left.
  void reach(uint32_t epoch) {
    while (kStart + most_used_.size() <= epoch) most_used_.push_back(used_);
  }

  size_t used_ = 0;
  std::vector<size_t> most_used_;  // by second
  std::vector<Skip> skips_;
};

class SkipTrackerTest : public testing::Test {
 protected:
  SkipTrackerTest() { use(0); }

  void use(size_t blocks) {
    const auto have = static_cast<int64_t>(series_->level().used / kB);
    series_->change(0, static_cast<int64_t>(blocks) - have, Nanos::seconds(epoch_));
    naive_.use(epoch_, blocks * kB);
  }
  void skip(size_t low, size_t high) {
    tracker_.skip(epoch_, low * kB, high * kB, window_);
    naive_.skip(epoch_, low * kB, high * kB);
  }
  // Goes on by so many seconds, and judges those that are over.
  void pass(uint32_t seconds) {
    epoch_ += seconds;
    tracker_.judge(*series_, epoch_ - 1, window_);
  }
  void pass_each(uint32_t seconds) {
    for (uint32_t i = 0; i < seconds; ++i) pass(1);
  }
  // A second of a random load, and what was skipped at its beginning.
  void act() {
    const size_t top = 1 + random_() % 100;
    for (uint64_t n = random_() % 3; n > 0; --n) skip(random_() % 100, top);
    for (uint64_t n = random_() % 3; n > 0; --n) use(random_() % 100);
  }
  void expect(uint64_t right, uint64_t wrong, uint64_t pending) const {
    EXPECT_EQ(tracker_.right(), right * kB);
    EXPECT_EQ(tracker_.wrong(), wrong * kB);
    EXPECT_EQ(tracker_.pending(), pending * kB);
  }

  uint32_t epoch_ = kStart, window_ = 60;
  std::unique_ptr<DemandSeries> series_ = std::make_unique<DemandSeries>();
  SkipTracker tracker_;
  Naive naive_;
  std::mt19937_64 random_{1};
};

// Not more skips than there are records, and a window in which only those of one second are joined.
class ShortWindows : public SkipTrackerTest, public testing::WithParamInterface<uint32_t> {};

TEST_P(ShortWindows, EqualBruteForce) {
  window_ = GetParam();
  for (int i = 0; i < 1200; ++i) {
    act();
    const bool jumps = random_() % 16 == 0;
    for (uint64_t n = jumps ? random_() % (3 * window_) : 0; n > 0; --n) {
      ++epoch_;  // nobody judges this second yet
      if (random_() % 4 == 0) use(random_() % 100);
    }
    pass(1);
    const uint32_t last = epoch_ - 1;
    ASSERT_EQ(tracker_.skipped(), naive_.skipped());
    ASSERT_EQ(tracker_.right(), naive_.right(last, window_)) << "second " << last - kStart;
    ASSERT_EQ(tracker_.wrong(), naive_.wrong(last, window_)) << "second " << last - kStart;
  }
  EXPECT_GT(tracker_.right(), 0u);
  EXPECT_GT(tracker_.wrong(), 0u);
  pass(window_);
  EXPECT_EQ(tracker_.pending(), 0u);
}

INSTANTIATE_TEST_SUITE_P(, ShortWindows, testing::Values(1u, 2u, 9u, 30u, 60u));

// A skip may have joined one that was made a 64th of the window before.
TEST_F(SkipTrackerTest, InLongWindowsEqualsBruteForceButForThatPart) {
  window_ = 640;
  const uint32_t part = window_ / (SkipTracker::kRecords / 2);
  size_t top = 0;
  for (int i = 0; i < 4000; ++i) {
    if (random_() % 16 == 0) top = 10 + random_() % 90;
    if (random_() % 16 == 0) use(random_() % 100);
    if (top > 0 && random_() % 2 == 0) skip(top - 1, top), --top;
    pass(1);
  }
  pass_each(window_);
  EXPECT_EQ(tracker_.pending(), 0u);
  EXPECT_EQ(tracker_.skipped(), naive_.skipped());
  EXPECT_GE(tracker_.right(), naive_.right(epoch_ - 1, window_ - part));
  EXPECT_LE(tracker_.right(), naive_.right(epoch_ - 1, window_, part));
}

TEST_F(SkipTrackerTest, WhereNothingIsSkippedNothingIsJudged) {
  use(90);
  skip(50, 50);
  skip(50, 10);
  pass_each(200);
  expect(0, 0, 0);
  EXPECT_EQ(tracker_.skipped(), 0u);
  EXPECT_EQ(tracker_.longest_wait(), 0);
}

TEST_F(SkipTrackerTest, DemandMayComeBackInParts) {
  skip(10, 50);
  use(30);
  use(20);
  pass(1);
  expect(0, 0, 40);  // in the second of the skip itself
  pass(1);
  expect(10, 0, 30);  // it still uses 20
  use(35);
  use(0);
  pass(1);
  expect(25, 0, 15);
  use(35);
  pass(1);
  expect(25, 0, 15);  // each byte once
  use(45);
  pass(1);
  expect(35, 0, 5);
  use(0);
  pass_each(window_ - 5);
  expect(35, 0, 5);
  pass(1);
  expect(35, 5, 0);
}

TEST_F(SkipTrackerTest, TheLastSecondOfTheWindowCounts) {
  for (const uint32_t late : {0u, 1u}) {
    use(0);
    skip(0, 10);
    pass_each(window_ + late);
    use(10);
    pass_each(2);
    expect(10, late * 10, 0);
    use(0);
    pass_each(2);
  }
}

// The clock may jump, or nobody may ask for long.
TEST_F(SkipTrackerTest, AfterAJumpOnlyItsWindowCounts) {
  skip(0, 10);
  pass(100 * window_);
  expect(0, 10, 0);
  skip(0, 10);
  epoch_ += window_;
  use(4);
  ++epoch_;
  use(10);
  pass(100 * window_);
  expect(4, 16, 0);
  EXPECT_EQ(tracker_.longest_wait(), window_);
}

TEST_F(SkipTrackerTest, NoSecondIsJudgedAgain) {
  skip(0, 10);
  pass(5);
  tracker_.judge(*series_, epoch_ - 1, window_);
  use(10);
  tracker_.judge(*series_, epoch_ - 1, window_);
  tracker_.judge(*series_, epoch_ - 3, window_);
  expect(0, 0, 10);
  pass(1);
  expect(10, 0, 0);
}

TEST_F(SkipTrackerTest, TheWindowMayBeLongerThanTheRing) {
  window_ = 3 * DemandSeries::kEntries;
  skip(0, 10);
  for (uint32_t i = 0; i < 2 * DemandSeries::kEntries; ++i) use(i % 2), pass(1);
  expect(1, 0, 9);
  use(6);
  pass(1);
  use(0);
  pass_each(DemandSeries::kEntries);
  expect(6, 4, 0);
}

// A window that is made shorter ends at once what is older.
TEST_F(SkipTrackerTest, TheWindowMayChange) {
  skip(0, 10);
  pass_each(20);
  use(10);
  window_ = 5;
  pass(1);
  expect(0, 10, 0);
}

// None of them touches another.
TEST_F(SkipTrackerTest, OfTooManyTheOldestIsJudgedEarly) {
  window_ = 1000;
  for (uint32_t i = 0; i <= SkipTracker::kRecords; ++i) {
    EXPECT_EQ(tracker_.wrong(), 0u);
    skip(3 * i, 3 * i + 1);
  }
  expect(0, 1, SkipTracker::kRecords);
  pass(1);
  use(3 * SkipTracker::kRecords);
  pass(1);
  expect(SkipTracker::kRecords - 1, 1, 1);
}

TEST_F(SkipTrackerTest, SkipsBelowEachOtherAreOne) {
  for (uint32_t i = 0; i < 4 * SkipTracker::kRecords; ++i) skip(999 - i, 1000 - i);
  expect(0, 0, 4 * SkipTracker::kRecords);
}

TEST_F(SkipTrackerTest, TheLongestWaitFades) {
  skip(0, 10);
  pass_each(20);
  use(10);
  pass(1);
  EXPECT_EQ(tracker_.longest_wait(), 20);
  pass(5 * window_);
  EXPECT_DOUBLE_EQ(tracker_.longest_wait(), 10);
  pass(10 * window_);
  EXPECT_EQ(tracker_.longest_wait(), 0);
}

}  // namespace
}  // namespace llamalloc
