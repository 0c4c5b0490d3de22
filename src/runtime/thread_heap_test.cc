// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_heap.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

// What the fast paths of allocator.h do, on a heap of the test's own.
class TestThread {
 public:
  explicit TestThread(Heap& heap) : heap_(heap), local_(std::make_unique<ThreadHeap>()) {
    local_->initialise();
  }
  char* allocate(int bin_index) {
    LocalBin& bin = local_->bins[bin_index];
    if (bin.mask == 0 && !local_->refill(heap_, bin_index)) return nullptr;
    return static_cast<char*>(bin.take());
  }
  // Bits that were free already.
  uint64_t deallocate(char* p) {
    Span* span = heap_.find(p);
    const size_t slot = static_cast<size_t>(p - span->base) / span->slot_size;
    uint64_t* word = &span->words[slot / 64];
    const uint64_t bit = uint64_t{1} << (slot % 64);
    LocalBin& bin = local_->bins[span->local_bin];
    HeldWord& held = local_->held[ThreadHeap::held_index(word)];
    if (bin.has(span, word) || held.word == word) {
      uint64_t& mask = bin.has(span, word) ? bin.mask : held.mask;
      if (mask & bit) return bit;
      mask |= bit;
      return 0;
    }
    return local_->take_in(heap_, span, word, bit);
  }
  void flush() { local_->flush(heap_); }
  const ThreadHeap& local() const { return *local_; }

 private:
  Heap& heap_;
  std::unique_ptr<ThreadHeap> local_;
};

class ThreadHeapTest : public testing::Test {
 protected:
  FakePages system_;
  MetadataArena arena_{system_};
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  Heap heap_{system_, arena_, *tables_};
};

TEST_F(ThreadHeapTest, APairGetsTheSameSlotAgain) {
  TestThread thread(heap_);
  char* first = thread.allocate(3);
  thread.deallocate(first);
  EXPECT_EQ(thread.allocate(3), first);
}

TEST_F(ThreadHeapTest, FindsADoubleFreeWhereverTheSlotIs) {
  TestThread thread(heap_);
  std::vector<char*> objects;
  for (int i = 0; i < 500; ++i) objects.push_back(thread.allocate(3));
  EXPECT_EQ(thread.deallocate(objects[499]), 0u);
  EXPECT_NE(thread.deallocate(objects[499]), 0u) << "in the bin's word";
  EXPECT_EQ(thread.deallocate(objects[0]), 0u);
  EXPECT_NE(thread.deallocate(objects[0]), 0u) << "in a held word";
}

// No slot is handed out twice, none is lost: flushed, the heap is empty again.
TEST_F(ThreadHeapTest, RandomWorkOnTwoThreadsLosesAndDoublesNothing) {
  TestThread threads[2] = {TestThread(heap_), TestThread(heap_)};
  std::mt19937 random(5);
  std::vector<std::pair<char*, int>> live;
  for (int step = 0; step < 200000; ++step) {
    TestThread& thread = threads[random() % 2];
    if (live.size() > 5000 || (!live.empty() && random() % 2)) {
      std::swap(live[random() % live.size()], live.back());
      auto [p, value] = live.back();
      live.pop_back();
      ASSERT_EQ(*reinterpret_cast<int*>(p), value);
      ASSERT_EQ(thread.deallocate(p), 0u);
    } else {
      char* p = thread.allocate(random() % kLocalBins);
      *reinterpret_cast<int*>(p) = step;
      live.emplace_back(p, step);
    }
    if (step % 10000 == 0) {
      ASSERT_TRUE(heap_.is_consistent());
      for (TestThread& t : threads) ASSERT_TRUE(t.local().is_consistent());
    }
    if (step % 50000 == 0) thread.flush();
  }
  for (auto [p, value] : live) threads[0].deallocate(p);
  for (TestThread& t : threads) t.flush();
  for (int g = 0; g < kPageGroups; ++g) EXPECT_EQ(heap_.count(static_cast<PageGroup>(g)).pages, 0u);
}

// A bin whose word ran dry still names it. When another thread frees the span and its record comes
// to describe another one, a slot of that must not be taken for one of the old.
TEST_F(ThreadHeapTest, AStaleWordIsNotTakenForTheOneThatReusesItsRecord) {
  constexpr int kBin = kSizeClasses - 1;
  const SizeClassRow& shape = kSizeClassRows[kBin];
  TestThread maker(heap_), breaker(heap_);
  std::vector<char*> old_slots;
  for (int i = 0; i < shape.slots; ++i) old_slots.push_back(maker.allocate(kBin));
  Span* record = heap_.find(old_slots[0]);
  for (char* p : old_slots) breaker.deallocate(p);
  breaker.flush();
  Span* in_its_place = heap_.allocate(shape.blocks * kBlockSize, 1, PageGroup::unknown, false);
  ASSERT_EQ(in_its_place->base, old_slots[0]);
  char* other = breaker.allocate(kBin);
  ASSERT_EQ(heap_.find(other), record) << "the record is in use again, for another place";
  maker.deallocate(other);
  EXPECT_EQ(maker.allocate(kBin), other);
}

TEST_F(ThreadHeapTest, HoldsABoundedAmountForOthers) {
  TestThread maker(heap_), taker(heap_);
  for (int round = 0; round < 50; ++round) {
    std::vector<char*> objects;
    for (int i = 0; i < 20000; ++i) objects.push_back(maker.allocate(i % 30));
    for (char* p : objects) taker.deallocate(p);
    ASSERT_LE(taker.local().held_bytes, kHeldLimit);
    ASSERT_TRUE(taker.local().is_consistent());
  }
  EXPECT_LE(heap_.pool_counts().acquired, 40u) << "the maker gets back what the taker freed";
}

TEST_F(ThreadHeapTest, RealThreadsHandObjectsOver) {
  constexpr int kThreads = 4;
  std::vector<std::vector<char*>> made(kThreads);
  const auto run = [&](auto&& body) {
    std::vector<std::thread> all;
    for (int t = 0; t < kThreads; ++t) all.emplace_back([&, t] { body(t); });
    for (auto& thread : all) thread.join();
  };
  for (int round = 0; round < 3; ++round) {
    run([&](int t) {
      TestThread thread(heap_);
      for (int i = 0; i < 20000; ++i) made[t].push_back(thread.allocate((i * 7 + t) % kLocalBins));
      thread.flush();
    });
    run([&](int t) {
      TestThread thread(heap_);
      for (char* p : made[(t + 1) % kThreads]) EXPECT_EQ(thread.deallocate(p), 0u);
      thread.flush();
    });
    for (auto& list : made) list.clear();
  }
  EXPECT_TRUE(heap_.is_consistent());
  for (int g = 0; g < kPageGroups; ++g) EXPECT_EQ(heap_.count(static_cast<PageGroup>(g)).pages, 0u);
}

}  // namespace
}  // namespace llamalloc
