// SPDX-License-Identifier: Apache-2.0
// What threads keep of large slots: magazines hold few of them, shelves the rest.
#include <gtest/gtest.h>

#include <atomic>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "heap/test_heap.h"
#include "heap/test_thread.h"

namespace llamalloc {
namespace {

class LargeSlotsTest : public OnFakeMemory {
 protected:
  static constexpr int kBin = kSizeClasses - 1;
  // Until the shelf has room for them.
  void replace_all(TestThread& thread, size_t times = 40'000) {
    for (size_t i = 0; i < times; ++i) {
      for (char*& slot : slots_) slot = thread.allocate(kBin);
      for (char* slot : slots_) ASSERT_EQ(thread.deallocate(slot), nullptr);
    }
  }
  // Who needed a lock on the way to blocks would wait for ever.
  template <typename F>
  void with_pages_locked(F&& f) {
    heap_.pages().for_each_lock([](Lock& lock) NO_THREAD_SAFETY_ANALYSIS { lock.lock(); });
    f();
    heap_.pages().for_each_lock([](Lock& lock) NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); });
  }
  char* slots_[8];
};

TEST_F(LargeSlotsTest, AThreadThatNeedsManyNeedsNoLock) {
  TestThread thread(heap_, arena_);
  replace_all(thread);
  const size_t in_magazine = thread.cache().bins[kBin].capacity();
  ASSERT_GE(thread.cache().shelf->room, (8 - in_magazine) * kSmallMax);
  const size_t acquired = heap_.pages().used_bytes();
  with_pages_locked([&] { replace_all(thread, 10); });
  EXPECT_GE(heap_.shelved_bytes(), (7 - in_magazine) * kSmallMax);
  EXPECT_EQ(heap_.pages().used_bytes(), acquired);
  EXPECT_EQ(thread.flush(), nullptr);
  EXPECT_EQ(heap_.drain_depots(), nullptr);
  EXPECT_EQ(heap_.pages().used_bytes(), 0u);
}

// Buffers that are taken and freed together: what the threads of a small heap may cache is enough.
TEST_F(LargeSlotsTest, TenBuffersAtOnceNeedNoLock) {
  for (const size_t size : {size_t{16} << 10, size_t{64} << 10}) {
    TestThread thread(heap_, arena_);
    const int bin = size_class_of(size);
    const auto work = [&](int rounds) {
      char* buffers[10];
      for (int round = 0; round < rounds; ++round) {
        for (char*& p : buffers) p = thread.allocate(bin);
        for (char* p : buffers) thread.deallocate(p);
      }
    };
    work(20'000);
    ASSERT_GE(thread.cache().bins[bin].capacity(), 10u);
    EXPECT_LE(thread.cached_bytes(), kLeastCached);
    LockGuard guard(tables_->bins[bin].lock);
    with_pages_locked([&] { work(10); });
    EXPECT_GE(thread.cached_bytes(), 10 * size);
  }
}

// A large magazine leaves no more at once than the depot has place for.
TEST_F(LargeSlotsTest, WhatOneOfTwoThreadsFreesGoesThroughTheDepot) {
  TestThread thread(heap_, arena_, 2);
  const int bin = size_class_of(16 << 10);
  char* buffers[100];
  for (int round = 0; round < 2'000; ++round) {
    for (char*& p : buffers) p = thread.allocate(bin);
    for (char* p : buffers) thread.deallocate(p);
  }
  EXPECT_GT(thread.cache().bins[bin].capacity(), 2 * kDepotBytes / slot_size_of(bin));
  EXPECT_EQ(heap_.depot_bytes(), kDepotBytes);
}

// Neither to open its span nor to free it; and the map knows where the object starts.
TEST_F(LargeSlotsTest, ASlotThatIsItsSpanNeedsNoLockOfTheBin) {
  Lock& lock = tables_->bins[kBin].lock;
  lock.lock();  // who needed it would wait for ever
  auto* slot = static_cast<char*>(heap_.take_one(kBin));
  EXPECT_NE(heap_.find(slot), nullptr);
  EXPECT_EQ(heap_.find(slot + kBlockSize), nullptr);
  EXPECT_EQ(tables_->bins[kBin].spans, 1u);
  EXPECT_EQ(heap_.give_one(slot), nullptr);
  EXPECT_EQ(heap_.find(slot), nullptr);
  EXPECT_EQ(heap_.give(kBin, reinterpret_cast<void**>(&slot), 1), slot) << "freed twice";
  lock.unlock();
  EXPECT_EQ(tables_->bins[kBin].spans, 0u);
  EXPECT_EQ(heap_.pages().used_bytes(), 0u);
}

// Threads open and close spans of one bin at once, and free what another took.
TEST_F(LargeSlotsTest, ManyThreadsOpenAndCloseTheirSpansAtOnce) {
  constexpr int kThreads = 4, kRounds = 2'000;
  std::atomic<char*> passed[kThreads] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        auto* slot = static_cast<char*>(heap_.take_one(kBin));
        EXPECT_EQ(heap_.find(slot)->base, slot);
        char* other = passed[(t + round) % kThreads].exchange(slot);
        EXPECT_TRUE(other == nullptr || heap_.give_one(other) == nullptr);
      }
    });
  for (auto& thread : threads) thread.join();
  for (auto& slot : passed) EXPECT_EQ(heap_.give_one(slot.load()), nullptr);
  EXPECT_EQ(tables_->bins[kBin].spans, 0u);
  EXPECT_EQ(tables_->bins[kBin].taken, 0u);
  EXPECT_EQ(heap_.pages().used_bytes(), 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(LargeSlotsTest, AThreadThatNeedsFewShelvesNone) {
  TestThread thread(heap_, arena_);
  for (int second = 0; second < 100; ++second) {
    replace_all(thread, 100);
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
  for (auto& thread : threads) replace_all(*thread, 6'000);
  EXPECT_LE(heap_.shelved_bytes(), kLeastShelved);
  EXPECT_GE(heap_.shelved_bytes(), kLeastShelved / 4);
}

// Who is about to grow the heap while somebody else empties the shelves gets its memory.
TEST_F(LargeSlotsTest, NobodyIsRefusedWhileShelvesAreEmptied) {
  std::atomic<bool> done{false};
  std::thread drains([&] {
    Shelf& shelf = heap_.next_shelf();
    while (shelf.room < kRunMax) shelf.earn(kRunMax);
    while (!done) {
      Span* run = heap_.allocate(kRunMax / 2, 1, PageGroup::session, false);
      heap_.hide(run);
      EXPECT_TRUE(heap_.shelve_run(shelf, run));
      heap_.release(Nanos::max(), 0);
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const int large = size_class_of(kSmallMax);
      for (int i = 0; i < 3000; ++i) {
        void* slots[20];
        Span* runs[5];
        for (int k = 0; k < 20; ++k) {
          const bool sampled = (k + i) % 2 == 0;
          ASSERT_NE(slots[k] = heap_.take_one(bin_of(PageGroup::brief, large, sampled)), nullptr);
          if (k % 4 != 0) continue;
          runs[k / 4] = heap_.allocate(kRunMax, 1, PageGroup::brief, false);
          ASSERT_NE(runs[k / 4], nullptr);
        }
        for (void* slot : slots) heap_.give_one(slot);
        for (Span* run : runs) heap_.deallocate(run);
      }
    });
  for (std::thread& thread : threads) thread.join();
  done = true;
  drains.join();
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(LargeSlotsTest, ASlotFreedTwiceIsFoundOnTheShelf) {
  TestThread thread(heap_, arena_);
  replace_all(thread);
  for (size_t i = thread.cache().bins[kBin].capacity(); i < 8; ++i)
    EXPECT_EQ(thread.deallocate(slots_[i]), slots_[i]) << i;
}

}  // namespace
}  // namespace llamalloc
