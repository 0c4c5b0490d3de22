// SPDX-License-Identifier: Apache-2.0
// How many locks the heap takes, and which: counted, not timed. The table that it prints:
//   heap_test --gtest_filter='LockCount.*'
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "heap/test_heap.h"
#include "heap/test_thread.h"
#include "os/fake/fake_pages.h"
#include "os/processor.h"

#ifdef LLAMALLOC_CHECK_BUILD

namespace llamalloc {
namespace {

constexpr int kMostThreads = 32;
constexpr int kObjects = 2000;  // that a thread holds
constexpr size_t kSizes[] = {16, 24, 32, 48, 64, 100, 128, 200, 256, 400, 512, 1000};

class LockCount : public OnFakeMemory {
 protected:
  using Counts = std::map<const Lock*, uint32_t>;

  Counts counts() {
    Counts counts;
    heap_.for_each_lock([&](Lock& lock) { counts[&lock] = lock.times_taken(); });
    return counts;
  }
  // The locks that were taken since, how often each.
  Counts since(const Counts& before) {
    Counts taken;
    for (const auto& [lock, times] : counts())
      if (times != before.at(lock)) taken[lock] = times - before.at(lock);
    return taken;
  }
  static uint64_t sum(const Counts& taken) {
    uint64_t all = 0;
    for (const auto& [lock, times] : taken) all += times;
    return all;
  }
  bool is_bin(const Lock* lock) const {
    for (const Bin& bin : tables_->bins)
      if (lock == &bin.lock) return true;
    return false;
  }
};

// Replaces random objects of its own, of mixed sizes.
struct Churn {
  TestThread thread;
  std::mt19937 random;
  std::vector<char*> held = std::vector<char*>(kObjects);

  void replace(int n) {
    for (int i = 0; i < n; ++i) {
      char*& object = held[random() % kObjects];
      if (object != nullptr) thread.deallocate(object);
      object = thread.allocate(size_class_of(kSizes[random() % std::size(kSizes)]));
    }
  }
};

void in_threads(int n, const std::function<void(int)>& body) {
  std::vector<std::thread> all;
  for (int t = 0; t < n; ++t) all.emplace_back(body, t);
  for (auto& thread : all) thread.join();
}

TEST_F(LockCount, AThreadThatFreesWhatItAllocatesTakesNone) {
  TestThread thread(heap_, arena_, kMostThreads);
  const auto batch = [&](int n) {
    std::vector<char*> objects;
    for (int i = 0; i < n; ++i) objects.push_back(thread.allocate(size_class_of(64)));
    for (char* p : objects) thread.deallocate(p);
  };
  for (int i = 0; i < 100; ++i) batch(50);
  const Counts before = counts();
  for (int i = 0; i < 10'000; ++i) batch(50);
  EXPECT_EQ(sum(since(before)), 0u);
}

// A lock for the span that becomes free, none for those that have some slots free.
TEST_F(LockCount, GivingSlotsBackTakesNoLockUnlessASpanBecomesFree) {
  const int bin = size_class_of(64);
  const size_t per_span = shape_of_bin(bin).slots;
  std::vector<void*> slots(3 * per_span);
  for (void*& slot : slots) slot = heap_.take_one(bin);
  Lock& lock = tables_->bins[bin].lock;
  Counts before = counts();
  for (size_t i = 0; i < slots.size(); ++i)
    if (i % per_span != 0) {
      EXPECT_EQ(heap_.give(bin, &slots[i], 1), nullptr);
    }
  EXPECT_EQ(since(before).count(&lock), 0u);
  for (size_t i = 0; i < slots.size(); i += per_span)
    EXPECT_EQ(heap_.give(bin, &slots[i], 1), nullptr);
  EXPECT_EQ(since(before)[&lock], 3u);
  EXPECT_EQ(heap_.count(PageGroup::unknown).pages, 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

// What two threads that want different sizes both take are page sets, the pool and the arena: for
// blocks, huge pages and records, never for a slot of a span that there is.
TEST_F(LockCount, ThreadsOfDifferentSizesShareNoLock) {
  TestThread first(heap_, arena_, 2), second(heap_, arena_, 2);
  const auto work = [&](TestThread& thread, int size_class, std::vector<char*>& objects) {
    for (int i = 0; i < 400; ++i) objects.push_back(thread.allocate(size_class));
    while (objects.size() > 200) thread.deallocate(objects.back()), objects.pop_back();
  };
  const auto locks_of = [&](TestThread& thread, int size_class) {
    std::vector<char*> objects;
    for (int i = 0; i < 20; ++i) work(thread, size_class, objects), objects.resize(200);
    const Counts before = counts();
    for (int i = 0; i < 20; ++i) {
      for (int k = 0; k < 300; ++k) objects.push_back(thread.allocate(size_class));
      for (int k = 0; k < 300; ++k) thread.deallocate(objects.back()), objects.pop_back();
    }
    return since(before);
  };
  const Counts a = locks_of(first, size_class_of(64)), b = locks_of(second, size_class_of(128));
  for (const auto& [lock, times] : a) EXPECT_FALSE(b.contains(lock) && is_bin(lock)) << times;
}

// A thread that has waited often and holds more at once than it may cache: the lock of its shard.
TEST_F(LockCount, AContendedThreadSharesNoneWithOtherProcessors) {
  std::thread([&] {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<size_t>(this_processor()), &here);
    ASSERT_EQ(sched_setaffinity(0, sizeof(here), &here), 0);
    TestThread thread(heap_, arena_, 4);
    const auto batch = [&](size_t size) {
      thread.cache().waits = kContended;
      std::vector<char*> objects((2 << 20) / size);
      for (char*& p : objects) p = thread.allocate(size_class_of(size));
      for (char* p : objects) thread.deallocate(p);
    };
    for (const size_t size : {size_t{64}, size_t{1024}, size_t{16} << 10}) {
      for (int i = 0; i < 10; ++i) batch(size);
      const Counts before = counts();
      for (int i = 0; i < 100; ++i) batch(size);
      const Counts taken = since(before);
      EXPECT_EQ(taken.size(), 1u) << size;
      for (const auto& [lock, times] : taken)
        EXPECT_EQ(
            lock,
            &tables_->shards.at(BinShards::shard_of(this_processor()), size_class_of(size)).lock);
    }
    thread.flush();
  }).join();
  EXPECT_TRUE(heap_.is_consistent());
}

// Locks a million operations (an allocation and a free), all threads together.
TEST_F(LockCount, DoNotGrowWithTheNumberOfThreads) {
  printf("locks taken in a million pairs of malloc and free\n threads  churn  remote\n");
  for (int n = 1; n <= kMostThreads; n *= 2) {
    const auto threads = static_cast<size_t>(n);
    std::vector<std::unique_ptr<Churn>> churns;
    for (int t = 0; t < n; ++t)
      churns.push_back(std::make_unique<Churn>(
          Churn{TestThread(heap_, arena_, threads), std::mt19937(static_cast<uint32_t>(t))}));
    in_threads(n, [&](int t) { churns[t]->replace(200'000); });
    Counts before = counts();
    in_threads(n, [&](int t) { churns[t]->replace(100'000); });
    const double churn = static_cast<double>(sum(since(before))) * 10 / n;

    // In pairs: what one allocates the other frees, 128 objects at a time.
    constexpr int kRounds = 2000, kBatch = 128;
    const int pairs = n == 1 ? 1 : n / 2;
    before = counts();
    in_threads(pairs, [&](int) {
      TestThread maker(heap_, arena_, 2 * static_cast<size_t>(pairs));
      TestThread taker(heap_, arena_, 2 * static_cast<size_t>(pairs));
      char* objects[kBatch];
      for (int round = 0; round < kRounds; ++round) {
        for (char*& p : objects) p = maker.allocate(size_class_of(64));
        for (char* p : objects) taker.deallocate(p);
      }
      maker.flush();
      taker.flush();
    });
    const double remote =
        static_cast<double>(sum(since(before))) * 1e6 / (double{kRounds} * kBatch * pairs);
    printf("%8d %6.0f %7.0f\n", n, churn, remote);
    EXPECT_LT(churn, 20'000) << n;
    EXPECT_LT(remote, 40'000) << n << ": one for each half of a magazine, on either side";
    for (auto& c : churns) {
      for (char* p : c->held)
        if (p != nullptr) c->thread.deallocate(p);
      c->thread.flush();
    }
  }
  EXPECT_TRUE(heap_.is_consistent());
}

}  // namespace
}  // namespace llamalloc

#endif
