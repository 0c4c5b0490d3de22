// SPDX-License-Identifier: Apache-2.0
#include "heap/magazines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "heap/test_heap.h"
#include "heap/test_thread.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

class MagazinesTest : public OnFakeMemory {};

TEST_F(MagazinesTest, APairGetsTheSameSlotAgain) {
  TestThread thread(heap_, arena_);
  char* first = thread.allocate(3);
  thread.deallocate(first);
  EXPECT_EQ(thread.allocate(3), first);
}

// Where there are many threads, what comes once is not worth an array, nor a slot that lies there.
TEST_F(MagazinesTest, NothingIsKeptOfASizeBeforeItsSecondVisit) {
  TestThread thread(heap_, arena_, 2);
  thread.deallocate(thread.allocate(3));
  EXPECT_EQ(thread.cache().capacity_bytes, 0u);
  EXPECT_EQ(thread.cache().cached_bytes(), 0u);
  thread.deallocate(thread.allocate(3));
  EXPECT_EQ(thread.cache().cached_bytes(), kSizeClassRows[3].size);
}

TEST_F(MagazinesTest, TheFirstSlotFreedTwiceComesToLightAtOnce) {
  for (size_t threads : {2, 5}) {
    TestThread thread(heap_, arena_, threads);
    char* p = thread.allocate(3);
    EXPECT_EQ(thread.deallocate(p), nullptr);
    EXPECT_EQ(thread.deallocate(p), p);
  }
}

// Nor does its span come and go with every thread.
TEST_F(MagazinesTest, WhatOneThreadNeedsOnceTheNextFindsInTheDepot) {
  TestThread first(heap_, arena_, 2), second(heap_, arena_, 2);
  char* p = first.allocate(3);
  ASSERT_EQ(first.deallocate(p), nullptr);
  EXPECT_EQ(heap_.depot_bytes(), kSizeClassRows[3].size);
  EXPECT_EQ(second.allocate(3), p);
  EXPECT_EQ(heap_.depot_bytes(), 0u);
}

// Nor with every second one: a cache goes from a thread that ends to one that starts.
TEST_F(MagazinesTest, ACacheThatIsTakenOverIsAsNew) {
  TestThread thread(heap_, arena_, 2);
  for (int i = 0; i < 4; ++i) {
    thread.deallocate(thread.allocate(3));
    EXPECT_EQ(thread.cache().capacity_bytes, 0u) << i;
    EXPECT_EQ(thread.flush(), nullptr);
    thread.cache().start_over();
    EXPECT_EQ(heap_.depot_bytes(), kSizeClassRows[3].size) << i;
  }
}

TEST_F(MagazinesTest, ASlotIsNotDepositedTwice) {
  TestThread first(heap_, arena_, 2), second(heap_, arena_, 2);
  char* p = first.allocate(3);
  EXPECT_EQ(first.deallocate(p), nullptr);
  EXPECT_EQ(second.deallocate(p), p) << "by another thread";
  first.cache().start_over();
  EXPECT_EQ(first.deallocate(p), p) << "by one that started over";
}

TEST_F(MagazinesTest, TheRunFreedLastServesTheNextOfItsLengthAndGroup) {
  TestThread thread(heap_, arena_);
  Magazines& cache = thread.cache();
  const auto run = [&](size_t blocks, PageGroup group) {
    return heap_.allocate(blocks * kBlockSize, 1, group, false);
  };
  Span* first = run(40, PageGroup::unknown);
  system_.time = system_.time + kBeingFilled;
  Span* second = run(40, PageGroup::brief);
  char* const base = first->base;
  ASSERT_TRUE(cache.keep_run(heap_, first, 1));
  EXPECT_EQ(heap_.find(base), nullptr);
  EXPECT_EQ(cache.take_run(heap_, {41}, PageGroup::unknown), nullptr);
  EXPECT_EQ(cache.take_run(heap_, {40}, PageGroup::brief), nullptr);
  EXPECT_EQ(cache.take_run(heap_, {40}, PageGroup::unknown), first);
  EXPECT_EQ(heap_.find(base), first);
  EXPECT_FALSE(first->fresh);
  EXPECT_EQ(cache.take_run(heap_, {40}, PageGroup::unknown), nullptr) << "only once";
  ASSERT_TRUE(cache.keep_run(heap_, first, 1));
  ASSERT_TRUE(cache.keep_run(heap_, second, 1));
  EXPECT_EQ(cache.run, second);
  EXPECT_EQ(heap_.pages().used_bytes(), 40 * kBlockSize) << "the first went to the heap";
  EXPECT_EQ(cache.take_kept_run(heap_, {40}, PageGroup::brief, 256, 1), nullptr) << "not aligned";
  EXPECT_EQ(thread.flush(), nullptr);
  heap_.release(Nanos::max(), 0);
  EXPECT_EQ(heap_.pages().in_use(), 0u);
}

TEST_F(MagazinesTest, ARunIsKeptOnlyWithinTheShareOfAThread) {
  TestThread thread(heap_, arena_);
  Magazines& cache = thread.cache();
  Span* whole = heap_.allocate(kLeastCached, 1, PageGroup::unknown, false);
  EXPECT_TRUE(cache.keep_run(heap_, whole, 2));
  EXPECT_EQ(cache.run, nullptr);
  EXPECT_EQ(heap_.pages().used_bytes(), 0u) << "the shelf has no room";
  whole = heap_.allocate(kLeastCached, 1, PageGroup::unknown, false);
  EXPECT_TRUE(cache.keep_run(heap_, whole, 1));
  EXPECT_EQ(cache.run, whole);
  Span* resized = heap_.allocate(kLeastCached, 1, PageGroup::unknown, false);
  heap_.resize(resized, kLeastCached / 2);
  EXPECT_FALSE(cache.keep_run(heap_, resized, 1));
  Span* direct = heap_.allocate(kRunMax + 1, 1, PageGroup::unknown, false);
  EXPECT_FALSE(cache.keep_run(heap_, direct, 1));
}

// Nobody would take it from there, as a request of that size looks for an empty page.
TEST_F(MagazinesTest, ARunThatFillsAHugePageIsNotKept) {
  TestThread thread(heap_, arena_);
  std::vector<Span*> runs;
  while (heap_.cache_limit() < kHugePageSize)
    runs.push_back(heap_.allocate(kRunMax, 1, PageGroup::unknown, false));
  heap_.deallocate(runs.back());
  heap_.deallocate(runs[runs.size() - 2]);
  heap_.release({}, 0);
  Span* whole = heap_.allocate(kHugePageSize, 1, PageGroup::unknown, false);
  ASSERT_EQ(whole->kind, SpanKind::run);
  EXPECT_FALSE(thread.cache().keep_run(heap_, whole, 1));
}

TEST_F(MagazinesTest, ADoubleFreeComesToLightWhenTheSlotsGoBack) {
  TestThread thread(heap_, arena_);
  std::vector<char*> objects;
  for (int i = 0; i < 500; ++i) objects.push_back(thread.allocate(3));
  thread.deallocate(objects[499]);
  thread.deallocate(objects[0]);
  thread.deallocate(objects[499]);
  EXPECT_EQ(thread.flush(), objects[499]);
}

// No slot is handed out twice, none is lost: flushed, the heap is empty again.
TEST_F(MagazinesTest, RandomWorkOnTwoThreadsLosesAndDoublesNothing) {
  TestThread threads[2] = {{heap_, arena_}, {heap_, arena_}};
  std::mt19937 random(5);
  std::vector<std::pair<char*, int>> live;
  for (int step = 0; step < 200000; ++step) {
    TestThread& thread = threads[random() % 2];
    if (live.size() > 5000 || (!live.empty() && random() % 2)) {
      std::swap(live[random() % live.size()], live.back());
      auto [p, value] = live.back();
      live.pop_back();
      ASSERT_EQ(*reinterpret_cast<int*>(p), value);
      ASSERT_EQ(thread.deallocate(p), nullptr);
    } else {
      char* p = thread.allocate(random() % kLocalBins);
      *reinterpret_cast<int*>(p) = step;
      live.emplace_back(p, step);
    }
    if (step % 10000 == 0) {
      ASSERT_TRUE(heap_.is_consistent());
      for (TestThread& t : threads) ASSERT_TRUE(t.cache().is_consistent());
    }
    if (step % 50000 == 0) {
      thread.flush();
    }
    if (step % 70000 == 0) {
      thread.flush();
      thread.cache().start_over();
    }
  }
  for (auto [p, value] : live) threads[0].deallocate(p);
  for (TestThread& t : threads) EXPECT_EQ(t.flush(), nullptr);
  EXPECT_EQ(heap_.drain_depots(), nullptr);
  for (int g = 0; g < kPageGroups; ++g) EXPECT_EQ(heap_.count(static_cast<PageGroup>(g)).pages, 0u);
}

TEST_F(MagazinesTest, AThreadThatTouchesEveryClassOnceHoldsLittle) {
  TestThread thread(heap_, arena_);
  std::vector<char*> objects;
  for (int c = 0; c < kSizeClasses; ++c) objects.push_back(thread.allocate(c));
  EXPECT_LE(thread.cached_bytes(), size_t{24} << 10);
  for (char* p : objects) thread.deallocate(p);
  EXPECT_LE(thread.cached_bytes(), size_t{32} << 10);
}

TEST_F(MagazinesTest, AThreadThatOnlyFreesKeepsShortMagazines) {
  TestThread maker(heap_, arena_), taker(heap_, arena_);
  for (int round = 0; round < 50; ++round) {
    std::vector<char*> objects;
    for (int i = 0; i < 20000; ++i) objects.push_back(maker.allocate(i % 30));
    for (char* p : objects) taker.deallocate(p);
    ASSERT_LE(taker.cached_bytes(), size_t{8192} * 30);
    ASSERT_TRUE(taker.cache().is_consistent());
  }
  EXPECT_LE(heap_.pages().counts().acquired, 40u) << "the maker gets back what the taker freed";
}

TEST_F(MagazinesTest, AMagazineInUseBothWaysGrowsToHoldAThousand) {
  TestThread thread(heap_, arena_);
  const int bin = size_class_of(64);
  for (int round = 0; round < 600; ++round) {
    std::vector<char*> objects;
    for (int i = 0; i < 1000; ++i) objects.push_back(thread.allocate(bin));
    for (char* p : objects) thread.deallocate(p);
  }
  EXPECT_GE(thread.cache().bins[bin].capacity(), 1000u);
  EXPECT_GE(thread.cached_bytes(), 32000u);
}

// A thread that gives slots back does not wait for the lock of their bin, and caches more from then
// on, since it is not alone.
TEST_F(MagazinesTest, WhereTheLockIsHeldSlotsGoToTheirSpansAndTheMagazineGrows) {
  const int bin = size_class_of(64);
  TestThread alone(heap_, arena_, 2), held_up(heap_, arena_, 2);
  const auto free_half = [&](TestThread& thread) {
    std::vector<char*> objects;
    for (int i = 0; i < 4000; ++i) objects.push_back(thread.allocate(bin));
    thread.flush();
    heap_.drain_depots();
    for (size_t i = 0; i < objects.size(); i += 2) thread.deallocate(objects[i]);
  };
  free_half(alone);
  EXPECT_GT(heap_.depot_bytes(), 0u);
  heap_.drain_depots();

  std::vector<char*> objects;
  for (int i = 0; i < 4000; ++i) objects.push_back(held_up.allocate(bin));
  held_up.flush();
  std::atomic<bool> held{false}, end{false};
  std::thread holder([&] {
    LockGuard guard(tables_->bins[bin].lock);
    held = true;
    while (!end) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  for (size_t i = 0; i < objects.size(); i += 2) held_up.deallocate(objects[i]);
  EXPECT_EQ(heap_.depot_bytes(), 0u);
  end = true;
  holder.join();
  EXPECT_GT(held_up.cache().bins[bin].capacity(), 2 * alone.cache().bins[bin].capacity());
  EXPECT_GT(held_up.cache().budget, alone.cache().budget + 4 * kWaitedStep);
  EXPECT_TRUE(held_up.cache().is_consistent());
}

TEST_F(MagazinesTest, ABudgetOfABusierTimeShrinksToWhatManyThreadsMayHave) {
  TestThread thread(heap_, arena_, 8192);
  thread.cache().budget = kBusyBudget;
  for (int i = 0; i < 1000; ++i) thread.allocate(size_class_of(1024));
  EXPECT_EQ(thread.cache().budget, kFirstBudget);
}

// However small the heap is: visits cost more than the memory.
TEST_F(MagazinesTest, AThreadThatNeedsTheHeapAllTheTimeMayCacheMoreThanItsShare) {
  for (const size_t threads : {size_t{1}, size_t{9}, size_t{63}}) {
    TestThread thread(heap_, arena_, threads);
    const size_t& budget = thread.cache().budget;
    for (int visit = 0; visit < 500'000; ++visit) {
      const size_t before = budget;
      thread.deallocate(thread.allocate(size_class_of(64)));
      thread.flush();
      ASSERT_GE(budget, before) << visit << " of " << threads;
    }
    EXPECT_LE(budget, std::min(kLargestBudget, kMostCached / threads));
    EXPECT_GT(budget, std::min(kLargestBudget, kMostCached / threads) - kEarnedStep);
  }
}

// One slot of each size at a time: each round needs the heap where the budget has no room for them.
class MagazinesBudgetTest : public MagazinesTest {
 protected:
  static void keep_busy(TestThread& thread) {
    for (int round = 0; round < 20000; ++round) {
      std::vector<char*> objects;
      for (int i = 0; i < 30; ++i) objects.push_back(thread.allocate(kSizeClasses - 1 - i));
      for (char* p : objects) thread.deallocate(p);
    }
    EXPECT_LE(thread.cached_bytes(), thread.cache().budget);
    EXPECT_TRUE(thread.cache().is_consistent());
  }
};

TEST_F(MagazinesBudgetTest, OneThreadMayCacheTheWholeShareOfTheHeap) {
  TestThread alone(heap_, arena_);
  keep_busy(alone);
  EXPECT_GT(alone.cache().budget, kLeastCached - kBudgetStep);
}

TEST_F(MagazinesBudgetTest, ABusyThreadOfManyMayCacheMoreThanItsShare) {
  constexpr size_t kThreads = 64;
  TestThread thread(heap_, arena_, kThreads);
  keep_busy(thread);
  EXPECT_GT(thread.cache().budget, kLeastCached / kThreads * 2);
  EXPECT_LT(thread.cache().budget, kBusyBudget + kBudgetStep);
  EXPECT_LE(thread.cache().budget * kThreads, kMostCached);
}

TEST_F(MagazinesBudgetTest, AllThreadsTogetherStayWithinTheBound) {
  constexpr size_t kThreads = 8192;
  TestThread thread(heap_, arena_, kThreads);
  keep_busy(thread);
  EXPECT_EQ(thread.cache().budget, kFirstBudget);
}

// It would take slots of a size that it needs once: memory that no other thread can use.
TEST_F(MagazinesTest, AThreadOfManyThatOnlyAllocatesCachesLessOfEachSize) {
  TestThread alone(heap_, arena_), one_of_many(heap_, arena_, 512);
  const int bin = size_class_of(64);
  for (int i = 0; i < 1000; ++i)
    for (TestThread* thread : {&alone, &one_of_many}) thread->allocate(bin);
  EXPECT_GT(alone.cache().bins[bin].capacity(), 32u);
  EXPECT_LT(one_of_many.cache().bins[bin].capacity(), 8u);
}

TEST_F(MagazinesTest, AThreadThatStartsOverGrowsWhatItNeeds) {
  TestThread thread(heap_, arena_);
  const int bin = size_class_of(64);
  const auto work = [&] {
    for (int round = 0; round < 600; ++round) {
      std::vector<char*> objects;
      for (int i = 0; i < 1000; ++i) objects.push_back(thread.allocate(bin));
      for (char* p : objects) thread.deallocate(p);
    }
  };
  work();
  const size_t budget = thread.cache().budget;
  size_t tables = 0;
  for (int turn = 0; turn < 3; ++turn) {
    thread.flush();
    thread.cache().start_over();
    EXPECT_EQ(thread.cache().bins[bin].capacity(), 0u);
    EXPECT_EQ(thread.cache().budget, std::max(budget / 2, kFirstBudget));
    EXPECT_TRUE(thread.cache().is_consistent());
    work();
    EXPECT_GE(thread.cache().bins[bin].capacity(), 1000u);
    thread.cache().budget = budget;
    if (turn != 0) {
      EXPECT_EQ(arena_.used_bytes(), tables) << "the arrays are used again";
    }
    tables = arena_.used_bytes();
  }
}

TEST_F(MagazinesTest, WhereAllocationsPassByTheCacheNothingGoesToTheDepot) {
  TestThread thread(heap_, arena_, 2);
  const int bin = size_class_of(64);
  std::vector<char*> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(thread.allocate(bin));
  thread.flush();
  thread.cache().start_over(3);
  for (char* p : objects) thread.deallocate(p);
  EXPECT_EQ(heap_.depot_bytes(), 0u);
}

TEST_F(MagazinesTest, SmallOnesStaySmall) {
  TestThread thread(heap_, arena_, 2);
  const int bin = size_class_of(64);
  thread.cache().start_over(0, true);
  for (int round = 0; round < 5; ++round) {
    std::vector<char*> objects;
    for (int i = 0; i < 1000; ++i) objects.push_back(thread.allocate(bin));
    for (char* p : objects) thread.deallocate(p);
    EXPECT_EQ(thread.cache().bins[bin].capacity(), (size_t{1} << kSmallLog2) - 1);
    EXPECT_EQ(heap_.depot_bytes(), 0u);
  }
  thread.flush();
  thread.cache().start_over();
  EXPECT_EQ(thread.cache().most_log2, kMagazineLog2Max);
}

TEST_F(MagazinesTest, RealThreadsHandObjectsOver) {
  constexpr int kThreads = 4;
  std::vector<std::vector<char*>> made(kThreads);
  const auto run = [&](auto&& body) {
    std::vector<std::thread> all;
    for (int t = 0; t < kThreads; ++t) all.emplace_back([&, t] { body(t); });
    for (auto& thread : all) thread.join();
  };
  for (int round = 0; round < 3; ++round) {
    run([&](int t) {
      TestThread thread(heap_, arena_);
      for (int i = 0; i < 20000; ++i)
        made[t].push_back(thread.allocate((i * 7 + t) % kTableClasses));
      thread.flush();
    });
    run([&](int t) {
      TestThread thread(heap_, arena_);
      for (char* p : made[(t + 1) % kThreads]) EXPECT_EQ(thread.deallocate(p), nullptr);
      thread.flush();
    });
    for (auto& list : made) list.clear();
  }
  EXPECT_TRUE(heap_.is_consistent());
  heap_.release(Nanos::max(), 0);  // spares of shards, if threads waited often
  for (int g = 0; g < kPageGroups; ++g) EXPECT_EQ(heap_.count(static_cast<PageGroup>(g)).pages, 0u);
}

// Three threads, and one that counts the heap, promotes and gives back: as the worker does. Under
// -fsanitize=thread.
class BesideAWorker : public testing::Test {
 protected:
  template <typename F>
  void in_three_threads(F&& work) {
    std::atomic<bool> done{false};
    std::thread worker([&] {
      while (!done.load()) {
        EXPECT_LE(heap_.count(PageGroup::brief).allocated, 8 * kRunMax);
        EXPECT_EQ(heap_.drain_depots(), nullptr);
        promoted_ += heap_.pages().promote_expired(Nanos::max());
        heap_.pages().break_idle(Nanos::max());
        heap_.release(Nanos::max(), 0);
        std::this_thread::yield();
      }
    });
    std::vector<std::thread> all;
    for (int i = 0; i < 3; ++i)
      all.emplace_back([&] {
        TestThread thread(heap_, arena_, 3);
        work(thread);
        EXPECT_EQ(thread.flush(), nullptr);
      });
    for (std::thread& thread : all) thread.join();
    done = true;
    worker.join();
    EXPECT_EQ(heap_.drain_depots(), nullptr);
    heap_.release(Nanos::max(), 0);
    EXPECT_EQ(heap_.pages().in_use(), 0u);
    EXPECT_TRUE(heap_.is_consistent());
  }

  MetadataArena arena_{system_pages};
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  Heap heap_{system_pages, arena_, *tables_};
  std::atomic<size_t> promoted_{0};
};

// Every page of a group with a deadline is past it all the time, and little used ones are broken.
TEST_F(BesideAWorker, ContentsStayThroughPromotions) {
  constexpr PageGroup kGroups[] = {PageGroup::transient, PageGroup::brief, PageGroup::session};
  constexpr size_t kSizes[] = {40, 700, 9000, 60000};
  struct Object {
    char* bytes = nullptr;
    size_t size = 0;
    char mark = 0;
  };
  std::atomic<int> seeds{0};
  in_three_threads([&](TestThread& thread) {
    std::vector<Object> all(600);
    std::minstd_rand random(static_cast<unsigned>(++seeds));
    const auto give_back = [&](Object& object) {
      ASSERT_EQ(std::count(object.bytes, object.bytes + object.size, object.mark),
                static_cast<ptrdiff_t>(object.size));
      ASSERT_EQ(thread.deallocate(object.bytes), nullptr);
      object.bytes = nullptr;
    };
    const auto take = [&](Object& object, unsigned i) {
      object = {nullptr, kSizes[random() % 4], static_cast<char>(i | 1)};
      object.bytes =
          thread.allocate(bin_of(kGroups[random() % 3], size_class_of(object.size), false));
      memset(object.bytes, object.mark, object.size);
    };
    for (unsigned i = 0; i < 30000; ++i) {
      Object& object = all[random() % all.size()];
      object.bytes == nullptr ? take(object, i) : give_back(object);
      if (i % 800 == 799) {  // nearly all go, so that pages are at rest, broken and given back
        for (size_t k = 0; k < all.size(); ++k)
          if (all[k].bytes != nullptr && k % 20 != 0) give_back(all[k]);
        ASSERT_EQ(thread.flush(), nullptr);
      }
    }
    for (Object& object : all)
      if (object.bytes != nullptr) give_back(object);
  });
  EXPECT_GT(promoted_.load(), 0u);
}

TEST_F(BesideAWorker, AThreadKeepsItsRun) {
  in_three_threads([&](TestThread& thread) {
    for (uint32_t i = 0; i < 20000; ++i) {
      const Blocks blocks{33 + i / 8 % 3};
      Span* span = thread.cache().take_run(heap_, blocks, PageGroup::brief);
      if (span == nullptr) span = heap_.allocate(blocks.bytes(), 1, PageGroup::brief, false);
      ASSERT_EQ(heap_.find(span->base), span);
      if (!thread.cache().keep_run(heap_, span, 3)) heap_.deallocate(span);
    }
  });
}

TEST_F(BesideAWorker, SlotsComeAndGo) {
  in_three_threads([&](TestThread& thread) {
    for (int i = 0; i < 2000; ++i) {
      char* slots[40];
      for (char*& slot : slots) slot = thread.allocate(bin_of(PageGroup::brief, 40, false));
      for (char* slot : slots) ASSERT_EQ(thread.deallocate(slot), nullptr);
      ASSERT_EQ(i % 8 == 0 ? thread.flush() : nullptr, nullptr);
    }
  });
}

}  // namespace
}  // namespace llamalloc
