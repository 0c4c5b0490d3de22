// SPDX-License-Identifier: Apache-2.0
// What threads keep of slots above kTableMax: their magazines hold hardly any.
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <vector>

#include "heap/test_heap.h"
#include "heap/test_thread.h"

namespace llamalloc {
namespace {

class LargeSlotsTest : public OnFakeMemory {
 protected:
  static constexpr int kBin = kSizeClasses - 1;
  // Until the shelf has room for them.
  void replace_all(TestThread& thread, size_t times = 100'000) {
    for (size_t i = 0; i < times; ++i) {
      for (char*& slot : slots_) slot = thread.allocate(kBin);
      for (char* slot : slots_) ASSERT_EQ(thread.deallocate(slot), nullptr);
    }
  }
  char* slots_[8];
};

TEST_F(LargeSlotsTest, AThreadThatNeedsManyNeedsNoLock) {
  TestThread thread(heap_, arena_);
  replace_all(thread);
  const size_t acquired = heap_.pages().used_bytes();
  Lock& lock = tables_->bins[kBin].lock;
  lock.lock();  // who needed it would wait for ever
  replace_all(thread, 10);
  lock.unlock();
  EXPECT_GE(heap_.shelved_bytes(), 6 * kSmallMax);
  EXPECT_EQ(heap_.pages().used_bytes(), acquired);
  EXPECT_EQ(thread.flush(), nullptr);
  EXPECT_EQ(heap_.drain_depots(), nullptr);
  EXPECT_EQ(heap_.pages().used_bytes(), 0u);
}

TEST_F(LargeSlotsTest, AThreadThatNeedsFewShelvesNone) {
  TestThread thread(heap_, arena_);
  for (int second = 0; second < 100; ++second) {
    replace_all(thread, 500);
    EXPECT_EQ(heap_.shelved_bytes(), 0u);
    heap_.drain_depots();
  }
}

TEST_F(LargeSlotsTest, AllThreadsTogetherShelveAFixedPartAtMost) {
  constexpr size_t kThreads = 16;
  std::vector<std::unique_ptr<TestThread>> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.push_back(std::make_unique<TestThread>(heap_, arena_, kThreads));
  std::vector<void*> all(kThreads * std::size(slots_));
  for (void*& slot : all) slot = heap_.take_one(kBin);
  for (void* slot : all) heap_.give_one(slot);
  for (auto& thread : threads) replace_all(*thread, 20'000);
  EXPECT_LE(heap_.shelved_bytes(), kLeastShelved);
  EXPECT_GE(heap_.shelved_bytes(), kLeastShelved / 4);
}

TEST_F(LargeSlotsTest, ASlotFreedTwiceIsFoundOnTheShelf) {
  TestThread thread(heap_, arena_);
  replace_all(thread);
  for (int i = 1; i < 8; ++i) EXPECT_EQ(thread.deallocate(slots_[i]), slots_[i]) << i;
}

}  // namespace
}  // namespace llamalloc
