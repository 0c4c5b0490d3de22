// SPDX-License-Identifier: Apache-2.0
#include "heap/heap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr PageGroup kGroups[] = {PageGroup::unknown, PageGroup::transient, PageGroup::brief,
                                 PageGroup::session, PageGroup::permanent};

class HeapTest : public testing::Test {
 protected:
  char* one(PageGroup group, size_t size) {
    return static_cast<char*>(heap_.take_one(bin_of(group, size_class_of(size), false)));
  }
  HugePage* page_of(const void* p) { return heap_.find(p)->page; }
  void grow_beyond_small() {
    while (heap_.pages_in_use() < kSmallHeap)
      heap_.allocate(kRunMax, 1, PageGroup::permanent, false);
  }

  FakePages system_;
  MetadataArena arena_{system_};
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  Heap heap_{system_, arena_, *tables_};
};

TEST_F(HeapTest, SlotsOfAGroupNeverShareAPageWithAnotherGroup) {
  grow_beyond_small();
  for (int i = 0; i < 3000; ++i)
    for (PageGroup group : kGroups) {
      const char* slot = one(group, 100 + i % 3000);
      ASSERT_NE(slot, nullptr);
      ASSERT_EQ(page_of(slot)->group, group);
    }
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(HeapTest, GroupsSharePagesWhileTheHeapIsSmall) {
  char* unknown = one(PageGroup::unknown, 1000);
  char* transient = one(PageGroup::transient, 1000);
  EXPECT_EQ(page_of(transient), page_of(unknown));
  EXPECT_NE(heap_.find(transient), heap_.find(unknown)) << "but no span";
  char* permanent = one(PageGroup::permanent, 1000);
  EXPECT_EQ(page_of(permanent), page_of(unknown));
  EXPECT_EQ(page_of(one(PageGroup::unknown, 4096)), page_of(unknown));
  grow_beyond_small();
  EXPECT_EQ(page_of(one(PageGroup::transient, 4096))->group, PageGroup::transient);
}

TEST_F(HeapTest, TakesTheLowestSlotAndReusesItAtOnce) {
  char* a = one(PageGroup::unknown, 64);
  char* b = one(PageGroup::unknown, 64);
  EXPECT_EQ(a + 64, b);
  EXPECT_EQ(heap_.give_one(a), nullptr);
  EXPECT_EQ(one(PageGroup::unknown, 64), a);
}

TEST_F(HeapTest, FindsASlotThatIsGivenBackTwice) {
  char* a = one(PageGroup::unknown, 64);
  char* b = one(PageGroup::unknown, 64);
  EXPECT_EQ(heap_.give_one(a), nullptr);
  EXPECT_EQ(heap_.give_one(a), a);
  void* both[] = {b, b};
  EXPECT_EQ(heap_.give(bin_of(PageGroup::unknown, size_class_of(64), false), both, 2), b)
      << "though the span is gone with its last object";
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(HeapTest, TakesManyInOrderFromTheTop) {
  const int bin = bin_of(PageGroup::unknown, size_class_of(64), false);
  void* slots[2000];
  const size_t first = heap_.take(bin, slots, 2000);
  EXPECT_EQ(first, kSizeClassRows[size_class_of(64)].slots) << "no new span but for the first slot";
  for (size_t i = 1; i < first; ++i)
    ASSERT_EQ(static_cast<char*>(slots[1999 - i]), static_cast<char*>(slots[1999]) + i * 64);
  EXPECT_EQ(heap_.give(bin, slots + 2000 - first, first), nullptr);
  EXPECT_EQ(heap_.count(PageGroup::unknown).pages, 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(HeapTest, EmptyPagesGoBackToTheSystemAndComeAgainAsZeroes) {
  std::vector<char*> slots;
  for (int i = 0; i < 4 * 256; ++i) slots.push_back(one(PageGroup::unknown, 8192));
  memset(slots[0], 0xab, 8192);
  const size_t pages = heap_.pool_counts().acquired;
  EXPECT_GE(pages, 4u);
  const size_t with_records = arena_.resident_bytes();
  for (char* slot : slots) heap_.give_one(slot);
  EXPECT_EQ(heap_.pool_counts().empty_backed, pages);
  EXPECT_EQ(heap_.release(system_.time - Nanos::seconds(1), 0), 0u) << "too young";
  system_.time = system_.time + Nanos::seconds(5);
  EXPECT_EQ(heap_.release(system_.time - Nanos::seconds(1), 1), pages - 1);
  EXPECT_EQ(heap_.release(system_.time - Nanos::seconds(1), 0), 1u);
  EXPECT_EQ(system_.discards, 2 * static_cast<int>(pages)) << "the records of its spans too";
  EXPECT_LE(arena_.resident_bytes() + pages * 8192, with_records);
  Span* run = heap_.allocate(300000, 1, PageGroup::unknown, false);
  ASSERT_TRUE(run->fresh);
  for (size_t i = 0; i < run->bytes; ++i) ASSERT_EQ(run->base[i], 0);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(HeapTest, TheFirstPagesAreSmallUntilTheHeapHasGrown) {
  for (int i = 0; i < 6; ++i) heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
  const int small = system_.small_advice;  // the three, and our own tables
  EXPECT_GE(small, 3);
  heap_.collapse_first_pages();
  EXPECT_EQ(system_.collapsed, 0u);
  heap_.allocate(kRunMax, 1, PageGroup::unknown, false);
  heap_.collapse_first_pages();
  heap_.collapse_first_pages();
  EXPECT_EQ(system_.collapsed, 3 * kHugePageSize);
  EXPECT_EQ(system_.small_advice, small);
}

TEST_F(HeapTest, RunsAreNotFreshWhenTheirBlocksWereUsed) {
  Span* first = heap_.allocate(300000, 1, PageGroup::unknown, false);
  Span* keeps_page = heap_.allocate(300000, 1, PageGroup::unknown, false);
  const char* base = first->base;
  EXPECT_TRUE(first->fresh);
  heap_.deallocate(first);
  Span* second = heap_.allocate(300000, 1, PageGroup::unknown, false);
  EXPECT_EQ(second->base, base);
  EXPECT_FALSE(second->fresh);
  heap_.deallocate(second);
  heap_.deallocate(keeps_page);
}

TEST_F(HeapTest, RunsGrowAndShrinkInPlace) {
  Span* run = heap_.allocate(35 * kBlockSize, 1, PageGroup::unknown, false);
  EXPECT_EQ(heap_.resize(run, 50 * kBlockSize), run->base);
  EXPECT_EQ(run->bytes, 50 * kBlockSize);
  Span* behind = heap_.allocate(35 * kBlockSize, 1, PageGroup::unknown, false);
  EXPECT_EQ(behind->base, run->base + 50 * kBlockSize);
  EXPECT_EQ(heap_.resize(run, 51 * kBlockSize), nullptr);
  EXPECT_EQ(heap_.resize(run, 36 * kBlockSize), run->base);
  Span* hole = heap_.allocate(14 * kBlockSize, 1, PageGroup::unknown, false);
  EXPECT_EQ(hole->base, run->base + 36 * kBlockSize);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(HeapTest, AlignmentsUpToAGibibyte) {
  for (size_t alignment = 16; alignment <= size_t{1} << 30; alignment *= 2) {
    Span* span = heap_.allocate(40000, alignment, PageGroup::unknown, false);
    ASSERT_NE(span, nullptr) << alignment;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(span->base) % alignment, 0u);
    heap_.deallocate(span);
  }
}

TEST_F(HeapTest, DirectMappingsAreCountedAndResized) {
  Span* span = heap_.allocate(5 << 20, 1, PageGroup::unknown, false);
  EXPECT_EQ(heap_.direct_bytes(), size_t{5} << 20);
  span->base[(5 << 20) - 1] = 7;
  ASSERT_NE(heap_.resize(span, 9 << 20), nullptr);
  EXPECT_EQ(span->base[(5 << 20) - 1], 7);
  EXPECT_EQ(heap_.find(span->base), span);
  heap_.deallocate(span);
  EXPECT_EQ(heap_.direct_bytes(), 0u);
}

TEST_F(HeapTest, AFreedMappingServesTheNextOfAboutItsSizeForAWhile) {
  Span* span = heap_.allocate(9 << 20, 1, PageGroup::unknown, false);
  char* base = span->base;
  EXPECT_TRUE(span->fresh);
  heap_.deallocate(span);
  EXPECT_EQ(heap_.find(base), nullptr);
  EXPECT_EQ(heap_.cached_direct_bytes(), size_t{9} << 20);
  Span* small = heap_.allocate(2 << 20, 1, PageGroup::unknown, false);
  EXPECT_NE(small->base, base) << "wastes too much";
  span = heap_.allocate((9 << 20) - 5000, 1, PageGroup::unknown, true);
  EXPECT_EQ(span->base, base);
  EXPECT_EQ(heap_.find(base), span);
  EXPECT_FALSE(span->fresh);
  EXPECT_TRUE(span->sampled);
  heap_.deallocate(small);
  heap_.deallocate(span);
  EXPECT_EQ(heap_.direct_bytes(), 0u);
  EXPECT_EQ(heap_.release_direct(system_.time - Nanos::seconds(1)), 0u) << "too young";
  EXPECT_EQ(heap_.release_direct(system_.time), 1u);
  EXPECT_EQ(heap_.cached_direct_bytes(), 0u);
}

TEST_F(HeapTest, KeepsTheNewestFreedMappingAndLittleMore) {
  std::vector<Span*> spans;
  for (int i = 0; i < 40; ++i)
    spans.push_back(
        heap_.allocate(static_cast<size_t>(2 + i % 9) << 20, 1, PageGroup::unknown, false));
  for (Span* span : spans) {
    heap_.deallocate(span);
    ASSERT_LE(heap_.cached_direct_bytes(), std::max(heap_.direct_bytes() / 16, size_t{10} << 20));
    ASSERT_GT(heap_.cached_direct_bytes(), 0u);
  }
  EXPECT_EQ(heap_.cached_direct_bytes(), size_t{2 + 39 % 9} << 20);
  heap_.deallocate(heap_.allocate(kCachedDirectBytes + 1, 1, PageGroup::unknown, false));
  EXPECT_EQ(heap_.cached_direct_bytes(), size_t{2 + 39 % 9} << 20) << "too large to keep";
}

// A page whose objects outlive the deadline serves the next longer group from then on.
TEST_F(HeapTest, PagesPastTheirDeadlineArePromoted) {
  char* stays = one(PageGroup::transient, 1000);
  HugePage* page = page_of(stays);
  system_.time = system_.time + Nanos::seconds(1);
  EXPECT_EQ(heap_.promote_expired(system_.time), 0u);
  system_.time = system_.time + Nanos::seconds(2);
  EXPECT_EQ(heap_.promote_expired(system_.time), 1u);
  EXPECT_EQ(page->group, PageGroup::brief);
  EXPECT_TRUE(page->promoted);
  char* brief = one(PageGroup::brief, 5000);
  EXPECT_EQ(page_of(brief), page) << "a promoted page is filled before a new one is opened";
  heap_.give_one(brief);
  heap_.give_one(stays);
  EXPECT_EQ(heap_.pool_counts().empty_backed, 1u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(HeapTest, APageInSteadyUseIsNotPromoted) {
  char* stays = one(PageGroup::transient, 1000);
  for (int i = 0; i < 10; ++i) {
    heap_.give_one(one(PageGroup::transient, 1000));
    system_.time = system_.time + Nanos::seconds(1);
    EXPECT_EQ(heap_.promote_expired(system_.time), 0u);
  }
  EXPECT_EQ(page_of(stays)->group, PageGroup::transient);
}

// Every call that can fail fails at some step: the heap says no and stays whole.
TEST_F(HeapTest, SurvivesASystemWithoutMemory) {
  for (int allowed = 0; allowed < 12; ++allowed) {
    system_.calls_left = allowed;
    char* slot = one(PageGroup::unknown, 20000);
    Span* run = heap_.allocate(300000, 1, PageGroup::unknown, false);
    Span* direct = heap_.allocate(3 << 20, 1, PageGroup::unknown, false);
    system_.calls_left = INT64_MAX;
    EXPECT_TRUE(heap_.is_consistent()) << allowed;
    if (slot) heap_.give_one(slot);
    if (run) heap_.deallocate(run);
    if (direct) heap_.deallocate(direct);
  }
  EXPECT_NE(one(PageGroup::unknown, 100), nullptr);
}

struct Held {
  char* start;
  size_t bytes;
  Span* span;  // of a run; null: a slot
};

// All operations in random order against a map of what is in use: no overlap, right alignment,
// contents kept.
TEST_F(HeapTest, AgreesWithANaiveOracle) {
  std::mt19937_64 random(3);
  std::map<char*, Held> used;
  for (int step = 0; step < 60000; ++step) {
    if (used.size() > 800 || (!used.empty() && random() % 2)) {
      auto victim = used.lower_bound(reinterpret_cast<char*>(random() >> 17));
      if (victim == used.end()) victim = used.begin();
      const Held h = victim->second;
      ASSERT_EQ(h.start[0], static_cast<char>(h.bytes));
      ASSERT_EQ(h.start[h.bytes - 1], static_cast<char>(h.bytes));
      used.erase(victim);
      if (h.span) {
        heap_.deallocate(h.span);
      } else {
        ASSERT_EQ(heap_.give_one(h.start), nullptr);
      }
    } else {
      const PageGroup group = kGroups[random() % 5];
      const size_t bytes = 1 + random() % (size_t{1} << random() % 21);
      Held h{nullptr, bytes, nullptr};
      if (bytes <= kSmallMax) {
        const int bin = bin_of(group, size_class_of(bytes), random() % 10 == 0);
        h.start = static_cast<char*>(heap_.take_one(bin));
      } else {
        h.span = heap_.allocate(bytes, 1, group, false);
        h.start = h.span->base;
      }
      const auto next = used.lower_bound(h.start);
      if (next != used.end()) {
        ASSERT_LE(h.start + bytes, next->first);
      }
      if (next != used.begin()) {
        const Held& before = std::prev(next)->second;
        ASSERT_LE(before.start + before.bytes, h.start);
      }
      ASSERT_EQ(reinterpret_cast<uintptr_t>(h.start) % 16, 0u);
      h.start[0] = h.start[bytes - 1] = static_cast<char>(bytes);
      used[h.start] = h;
    }
    if (step % 1000 == 0) {
      ASSERT_TRUE(heap_.is_consistent()) << step;
      heap_.release(system_.time, random() % 4);
      heap_.release_direct(system_.time);
      system_.time = system_.time + Nanos::millis(700);
      heap_.promote_expired(system_.time);
    }
  }
  for (auto& [start, h] : used) h.span ? heap_.deallocate(h.span) : void(heap_.give_one(start));
  for (PageGroup group : kGroups) EXPECT_EQ(heap_.count(group).pages, 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

// A thread that wants one of the locks would wait for the system.
TEST_F(HeapTest, GivesBackWithoutALock) {
  struct Watch {
    Heap* heap;
    int calls, locked;
  } watch{&heap_, 0, 0};
  system_.on_release_argument = &watch;
  system_.on_release = [](void* argument) {
    auto& w = *static_cast<Watch*>(argument);
    ++w.calls;
    w.locked += w.heap->any_lock_is_held();
  };
  std::vector<char*> slots;
  for (int i = 0; i < 20000; ++i) slots.push_back(one(kGroups[i % 4], 1000));
  std::vector<Span*> spans;
  for (size_t bytes = 300'000; bytes < 30'000'000; bytes = bytes * 3 / 2)
    spans.push_back(heap_.allocate(bytes, 1, PageGroup::unknown, false));
  for (Span*& span : spans)
    if (void* moved = heap_.resize(span, span->bytes + span->bytes / 2)) span = heap_.find(moved);
  for (char* slot : slots) EXPECT_EQ(heap_.give_one(slot), nullptr);
  for (Span* span : spans) heap_.deallocate(span);
  EXPECT_GT(heap_.release(Nanos::max(), 0), 10u);
  EXPECT_GT(heap_.release_direct(Nanos::max()), 0u);
  EXPECT_GT(watch.calls, 20);
  EXPECT_EQ(watch.locked, 0);
}

TEST_F(HeapTest, EmptyPagesMakeRoomForALargeObjectWhenAddressSpaceIsScarce) {
  system_.most_mapped = size_t{300} << 20;
  for (int round = 0; round < 3; ++round) {
    std::vector<char*> slots;
    while (char* slot = one(PageGroup::unknown, 100'000)) slots.push_back(slot);
    EXPECT_GT(slots.size(), 2000u);
    for (char* slot : slots) EXPECT_EQ(heap_.give_one(slot), nullptr);
    heap_.release(Nanos::max(), 0);
    Span* large = heap_.allocate(size_t{200} << 20, 1, PageGroup::unknown, false);
    ASSERT_NE(large, nullptr);
    EXPECT_TRUE(heap_.is_consistent());
    heap_.deallocate(large);
  }
  EXPECT_EQ(heap_.pool_counts().empty_backed, 0u);
}

TEST_F(HeapTest, AMappingThatTheSystemDoesNotTakeBackIsUsedAgain) {
  system_.refuse_unmap = true;
  constexpr size_t kBytes = size_t{200} << 20;  // more than is cached
  Span* first = heap_.allocate(kBytes, 1, PageGroup::unknown, false);
  char* const base = first->base;
  base[0] = 1;
  heap_.deallocate(first);
  EXPECT_LT(system_.resident(base, kBytes), kBytes / 2);
  Span* second = heap_.allocate(kBytes, 1, PageGroup::unknown, false);
  EXPECT_EQ(second->base, base);
  EXPECT_FALSE(second->fresh);
  EXPECT_EQ(heap_.direct_bytes(), kBytes);
}

}  // namespace
}  // namespace llamalloc
