// SPDX-License-Identifier: Apache-2.0
#include "heap/heap.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "heap/test_heap.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr PageGroup kGroups[] = {PageGroup::unknown, PageGroup::transient, PageGroup::brief,
                                 PageGroup::session, PageGroup::permanent};

class HeapTest : public OnFakeMemory {
 protected:
  // What the counters say against a walk over all pages. Nothing is on a shelf or in a depot, and
  // break_idle has just looked.
  void expect_counters_agree() {
    size_t held = 0, live = 0;
    heap_.pages().for_each_page([&](const HugePage& page) {
      const PageCounts counts = heap_.count(page);
      held += kHugePageSize - counts.unbacked;
      live += counts.allocated;
    });
    ASSERT_EQ(heap_.held_bytes(), held);
    ASSERT_EQ(heap_.live_bytes(), live);
  }
};

// A huge page has two places for what is aligned to 1 MiB.
TEST_F(HeapTest, AFarAlignmentTakesNoHugePageForASmallObject) {
  const size_t before = heap_.backed_bytes();
  std::vector<Span*> spans;
  for (const size_t alignment : {size_t{64} << 10, size_t{256} << 10, kRunMax})
    for (int i = 0; i < 20; ++i) {
      Span* span = heap_.allocate(100, alignment, PageGroup::unknown, false);
      ASSERT_NE(span, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(span->base) % alignment, 0u);
      spans.push_back(span);
    }
  EXPECT_LE(heap_.backed_bytes() - before, 60 * direct_size(100));
  Span* half = heap_.allocate(kRunMax / 2, kRunMax, PageGroup::unknown, false);
  EXPECT_EQ(half->kind, SpanKind::run) << "it needs the place";
  heap_.deallocate(half);
  for (Span* span : spans) heap_.deallocate(span);
}

// The system allows a process some 65,000 mappings.
TEST_F(HeapTest, VeryManyObjectsWithFarAlignmentsAreRuns) {
  for (size_t i = 0; i < kApartMappings; ++i)
    ASSERT_NE(heap_.allocate(100, size_t{64} << 10, PageGroup::unknown, false), nullptr);
  Span* span = heap_.allocate(100, size_t{64} << 10, PageGroup::unknown, false);
  EXPECT_EQ(span->kind, SpanKind::run);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(span->base) % (size_t{64} << 10), 0u);
}

// A pair again and again takes one mapping.
TEST_F(HeapTest, AFreedMappingServesTheNextObjectWithAFarAlignment) {
  const char* first = nullptr;
  for (int i = 0; i < 20; ++i) {
    Span* span = heap_.allocate(100, kRunMax, PageGroup::unknown, false);
    ASSERT_EQ(span->kind, SpanKind::direct);
    if (i == 0) first = span->base;
    EXPECT_EQ(span->base, first);
    ASSERT_TRUE(heap_.keep_direct(span));
  }
}
TEST_F(HeapTest, BatchesOfObjectsWithFarAlignmentsKeepTheirMappings) {
  std::vector<Span*> spans(40);
  int unmaps = 0;
  for (int round = 0; round < 5; ++round) {
    for (Span*& span : spans) span = heap_.allocate(100, kRunMax, PageGroup::unknown, false);
    if (round == 0) unmaps = system_.unmaps;
    for (Span* span : spans) heap_.deallocate(span);
  }
  EXPECT_EQ(system_.unmaps, unmaps);
}

// The tag answers for a free as the record would.
TEST_F(HeapTest, ATagKnowsTheStartsOfSlotsThatAThreadMayCache) {
  const SpanMap& map = tables_->map;
  const auto starts = [&map](const char* p) {
    SpanTag tag;
    return map.find_tag(p, &tag) && map.starts_slot(p, tag);
  };
  EXPECT_FALSE(starts(nullptr));
  for (int size_class = 0; size_class < kSizeClasses; ++size_class) {
    const int bin = bin_of(PageGroup::session, size_class, false);
    void* slot = heap_.take_one(bin);
    const Span* span = heap_.find(slot);
    const char* const base = span->base;
    for (size_t at = 0; at < kSizeClassRows[size_class].blocks * kBlockSize; ++at)
      ASSERT_EQ(starts(base + at), span->starts_object(base + at)) << size_class << ' ' << at;
    SpanTag tag;
    ASSERT_TRUE(map.find_tag(slot, &tag));
    EXPECT_EQ(tag.bin_offset() / sizeof(uint64_t), static_cast<size_t>(bin - kNoLocalBin));
    ASSERT_EQ(heap_.give_one(slot), nullptr);
    EXPECT_FALSE(starts(base)) << "its span is gone";
  }
  EXPECT_FALSE(starts(static_cast<char*>(heap_.take_one(bin_of(PageGroup::session, 0, true)))));
  EXPECT_FALSE(starts(heap_.allocate(kRunMax, 1, PageGroup::unknown, false)->base));
  EXPECT_FALSE(starts(heap_.allocate(kRunMax + 1, 1, PageGroup::unknown, false)->base));
}

// But for permanent ones, which may lie with those of `unknown`.
TEST_F(HeapTest, SlotsOfAGroupNeverShareAPageWithAnotherGroup) {
  heap_.pages().share_pages_below(0);
  for (int i = 0; i < 3000; ++i)
    for (PageGroup group : kGroups) {
      const char* slot = one(group, 100 + i % 3000);
      ASSERT_NE(slot, nullptr);
      const bool with_unknown =
          group == PageGroup::permanent && page_of(slot)->group == PageGroup::unknown;
      ASSERT_TRUE(page_of(slot)->group == group || with_unknown);
    }
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(HeapTest, GroupsFillPagesOfLongerLivedOnesThatAreMostlyFree) {
  char* session = one(PageGroup::session, 1000);
  system_.time = system_.time + kBeingFilled;
  char* transient = one(PageGroup::transient, 1000);
  EXPECT_EQ(page_of(transient), page_of(session));
  EXPECT_NE(heap_.find(transient), heap_.find(session)) << "but no span";
  EXPECT_EQ(page_of(one(PageGroup::unknown, 4096)), page_of(session)) << "it may stay or not";
  char* permanent = one(PageGroup::permanent, 1000);
  EXPECT_NE(page_of(permanent), page_of(session)) << "it would pin it";
  system_.time = system_.time + kBeingFilled;
  EXPECT_EQ(page_of(one(PageGroup::brief, 4096)), page_of(permanent)) << "of the longest-lived";
}

// Seven full pages and one that is partly so: the limit is half a page.
TEST_F(HeapTest, CountsHolesWhateverMakesThem) {
  for (int i = 0; i < 14; ++i) heap_.allocate(kRunMax, 1, PageGroup::session, false);
  Span* growing = heap_.allocate(kRunMax / 2, 1, PageGroup::session, false);
  system_.time = system_.time + kBeingFilled;
  const auto shares = [&] {
    char* probe = one(PageGroup::transient, 64);
    const bool shared = page_of(probe)->group == PageGroup::session;
    heap_.give_one(probe);
    return shared;
  };
  EXPECT_TRUE(shares()) << "three quarters of the last page are free";
  ASSERT_NE(heap_.resize(growing, kRunMax), nullptr);
  EXPECT_FALSE(shares()) << "no more than a half";
  ASSERT_NE(heap_.resize(growing, kRunMax / 2), nullptr);
  EXPECT_TRUE(shares());
  Span* other = heap_.allocate(kRunMax / 2, 1, PageGroup::session, false);
  EXPECT_FALSE(shares());
  heap_.deallocate(other);
  EXPECT_TRUE(shares());
}

// What stays may lie with what is not known; that pins nothing that would have become free.
TEST_F(HeapTest, PermanentObjectsFillUnknownPagesAtAnyTime) {
  heap_.pages().share_pages_below(0);
  char* unknown = one(PageGroup::unknown, 1000);
  EXPECT_EQ(page_of(one(PageGroup::permanent, 1000)), page_of(unknown));
  EXPECT_NE(page_of(one(PageGroup::brief, 1000)), page_of(unknown));
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
  EXPECT_EQ(heap_.live_bytes(), 0u) << "each counted once";
  EXPECT_TRUE(heap_.is_consistent());
}

// What one thread gives another gets as it is; the worker finds what was freed twice.
TEST_F(HeapTest, ADepotHandsSlotsOver) {
  const int bin = bin_of(PageGroup::unknown, size_class_of(64), false);
  void *slots[100], *again[100];
  ASSERT_EQ(heap_.take(bin, slots, 100), 100u);
  const Span* span = heap_.find(slots[0]);
  EXPECT_EQ(heap_.deposit(bin, slots, 60), nullptr);
  EXPECT_EQ(heap_.depot_bytes(), 60 * 64u);
  EXPECT_EQ(span->free_slots, span->slots - 100) << "the span does not know";
  EXPECT_EQ(heap_.take(bin, again, 40), 40u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(again[i], slots[20 + i]);
  EXPECT_EQ(heap_.take(bin, again, 40), 20u) << "no more than there are: no look at a span";
  EXPECT_EQ(heap_.depot_bytes(), 0u);
  EXPECT_EQ(heap_.deposit(bin, slots, 100), nullptr);
  EXPECT_EQ(heap_.deposit(bin, slots + 7, 1), nullptr) << "not seen yet";
  EXPECT_EQ(heap_.drain_depots(), slots[7]);
  EXPECT_EQ(heap_.depot_bytes(), 0u);
  EXPECT_EQ(heap_.count(PageGroup::unknown).pages, 0u);
  EXPECT_TRUE(heap_.is_consistent());
}

// Or one malloc after a load that drops would do it for all of them.
TEST_F(HeapTest, SpansThatHaveFreeSlotsAgainAreListedAFewAtATime) {
  constexpr int kSpans = 300;
  const int b = size_class_of(3000);
  const auto each = static_cast<size_t>(shape_of_bin(b).slots);
  std::vector<void*> slots(kSpans * each);
  for (void*& slot : slots) slot = heap_.take_one(b);
  const Bin& bin = tables_->bins[b];
  ASSERT_EQ(bin.spans, size_t{kSpans});
  for (size_t i = 0; i < slots.size(); i += each) EXPECT_EQ(heap_.give_one(slots[i]), nullptr);
  EXPECT_EQ(bin.listed, 0u);
  void* const again = heap_.take_one(b);
  EXPECT_LE(bin.listed, 64u);
  EXPECT_EQ(heap_.give_one(again), nullptr);
  EXPECT_TRUE(bin.may_have_any());
  // The last ones of a span that is not listed yet.
  for (size_t i = 3 * each + 1; i < 4 * each; ++i) EXPECT_EQ(heap_.give_one(slots[i]), nullptr);
  EXPECT_EQ(bin.spans, size_t{kSpans});
  EXPECT_TRUE(heap_.has_backlog()) << "the worker has to come";
  heap_.release(system_.time, 0);
  EXPECT_EQ(bin.spans, size_t{kSpans} - 1);
  EXPECT_EQ(bin.backlog, nullptr);
  EXPECT_TRUE(heap_.is_consistent());
}

// Threads take slots of two bins and give back those of others, so that spans become full, partly
// used and free at the same time as others look at them, and records pass from bin to bin and from
// shard to shard.
TEST_F(HeapTest, ManyThreadsGiveBackSlotsOfTheSameSpans) {
  constexpr int kThreads = 4, kShared = 64, kRounds = 30'000;
  for (const size_t size : {size_t{1024}, size_t{10'000}, size_t{40'000}}) {
    const int bins[] = {0, size_class_of(size)};
    std::vector<std::atomic<void*>> shared(kShared);
    const auto work = [&](uint32_t seed) {
      std::mt19937 random(seed);
      for (int round = 0; round < kRounds; ++round) {
        const uint32_t which = random() % 2;
        void* slots[8];
        const size_t want = 1 + random() % 8;
        const int shard = static_cast<int>(random() % 4);
        const size_t got = heap_.take(bins[which], slots, want, shard);
        size_t back = 0;
        for (size_t i = want - got; i < want; ++i) {
          auto& place = shared[random() % (kShared / 2) * 2 + which];
          if (void* other = place.exchange(slots[i])) slots[back++] = other;
        }
        EXPECT_EQ(random() % 8 == 0 ? heap_.deposit(bins[which], slots, back)
                                    : heap_.give(bins[which], slots, back),
                  nullptr);
      }
    };
    std::atomic<bool> end{false};
    std::thread observer([&] {
      while (!end) {
        heap_.release(Nanos::max(), 0);
        heap_.drain_depots();
        EXPECT_LE(heap_.count(PageGroup::unknown).allocated, size_t{64} << 20);
      }
    });
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
    for (std::thread& thread : threads) thread.join();
    end = true;
    observer.join();
    EXPECT_EQ(heap_.drain_depots(), nullptr);
    EXPECT_TRUE(heap_.is_consistent());
    for (auto& slot : shared)
      if (void* left = slot.load(); left != nullptr) {
        EXPECT_EQ(heap_.give_one(left), nullptr);
      }
    EXPECT_TRUE(heap_.is_consistent());
    heap_.release(Nanos::max(), 0);  // spares of shards
    EXPECT_EQ(heap_.count(PageGroup::unknown).pages, 0u) << size << ": no span is left behind";
    for (const int bin : bins) {
      EXPECT_EQ(heap_.quick_count(PageGroup::unknown).allocated, 0u);
      EXPECT_EQ(tables_->bins[bin].spans, 0u);
    }
  }
}

// Of spans so far apart that the number of slots between them does not fit into 32 bits.
TEST_F(HeapTest, ASlotFarAwayIsNoSlotOfTheSpan) {
  const Span* span = heap_.find(one(PageGroup::unknown, 16));
  EXPECT_GE(span->slot_of(span->base + (size_t{16} << 32)), span->slots);
  EXPECT_GE(span->slot_of(span->base - (size_t{16} << 32)), span->slots);
}

// What a thread frees first is found to be free already, in its span as in the depot.
TEST_F(HeapTest, WhatIsFreeInItsSpanOrNewestInTheDepotIsFree) {
  const int bin = size_class_of(64);
  void* slots[3];
  ASSERT_EQ(heap_.take(bin, slots, 3), 3u);
  EXPECT_FALSE(heap_.is_free(bin, slots[0]));
  ASSERT_EQ(heap_.give(bin, slots, 1), nullptr);
  EXPECT_TRUE(heap_.is_free(bin, slots[0]));
  ASSERT_EQ(heap_.deposit(bin, slots + 1, 1), nullptr);
  EXPECT_TRUE(heap_.is_free(bin, slots[1]));
  EXPECT_EQ(heap_.deposit(bin, slots + 1, 1), slots[1]);
  EXPECT_FALSE(heap_.is_free(bin, slots[2]));
}

TEST_F(HeapTest, DepotsHoldLittle) {
  std::vector<std::vector<void*>> taken(kTableClasses);
  for (int c = 0; c < kTableClasses; ++c)
    for (int i = 0; i < 3000; ++i) taken[c].push_back(heap_.take_one(c));
  size_t before = 0;
  const size_t limit = heap_.cache_limit();  // it shrinks as slots go back
  for (int c = 0; c < kTableClasses; ++c) {
    for (size_t i = 0; i < 3000; i += 10)
      ASSERT_EQ(heap_.deposit(c, taken[c].data() + i, 10), nullptr);
    ASSERT_LE(heap_.depot_bytes() - before, kDepotBytes);
    ASSERT_LE(heap_.depot_bytes() - before, kDepotSlots * slot_size_of(c));
    ASSERT_LE(heap_.depot_bytes(), limit);
    before = heap_.depot_bytes();
  }
  EXPECT_GT(before, kLeastCached / 2);
  EXPECT_EQ(heap_.drain_depots(), nullptr);
  EXPECT_EQ(heap_.count(PageGroup::unknown).pages + heap_.count(kGroups[1]).pages, 0u);
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
  const size_t pages = heap_.pages().counts().acquired;
  EXPECT_GE(pages, 4u);
  const size_t with_records = arena_.resident_bytes();
  for (char* slot : slots) heap_.give_one(slot);
  EXPECT_EQ(heap_.pages().counts().empty_backed, pages);
  EXPECT_EQ(heap_.release(system_.time - Nanos::seconds(1), 0), 0u) << "too young";
  system_.time = system_.time + Nanos::seconds(5);
  EXPECT_EQ(heap_.release(system_.time - Nanos::seconds(1), 1), pages - 1);
  EXPECT_EQ(heap_.release(system_.time - Nanos::seconds(1), 0), 1u);
  EXPECT_GE(system_.discards, 2 * static_cast<int>(pages)) << "the records of its spans too";
  EXPECT_LE(arena_.resident_bytes() + pages * 8192, with_records);
  Span* run = heap_.allocate(300000, 1, PageGroup::unknown, false);
  ASSERT_TRUE(run->fresh);
  for (size_t i = 0; i < run->bytes; ++i) ASSERT_EQ(run->base[i], 0);
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
  EXPECT_EQ(heap_.direct().bytes(), size_t{5} << 20);
  span->base[(5 << 20) - 1] = 7;
  ASSERT_NE(heap_.resize(span, 9 << 20), nullptr);
  EXPECT_EQ(span->base[(5 << 20) - 1], 7);
  EXPECT_EQ(heap_.find(span->base), span);
  heap_.deallocate(span);
  EXPECT_EQ(heap_.direct().bytes(), 0u);
}

// A page whose objects outlive the deadline serves the next longer group from then on.
TEST_F(HeapTest, PagesPastTheirDeadlineArePromoted) {
  char* stays = one(PageGroup::transient, 1000);
  HugePage* page = page_of(stays);
  system_.time = system_.time + Nanos::seconds(5);
  EXPECT_EQ(heap_.pages().promote_expired(system_.time), 0u);
  system_.time = system_.time + Nanos::seconds(2);
  EXPECT_EQ(heap_.pages().promote_expired(system_.time), 1u);
  EXPECT_EQ(page->group, PageGroup::brief);
  EXPECT_TRUE(page->promoted);
  char* brief = one(PageGroup::brief, 5000);
  EXPECT_EQ(page_of(brief), page) << "a promoted page is filled before a new one is opened";
  heap_.give_one(brief);
  heap_.give_one(stays);
  EXPECT_EQ(heap_.pages().counts().empty_backed, 1u);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST_F(HeapTest, APageInSteadyUseIsNotPromoted) {
  char* stays = one(PageGroup::transient, 1000);
  for (int i = 0; i < 10; ++i) {
    heap_.give_one(one(PageGroup::transient, 1000));
    system_.time = system_.time + Nanos::seconds(1);
    EXPECT_EQ(heap_.pages().promote_expired(system_.time), 0u);
  }
  EXPECT_EQ(page_of(stays)->group, PageGroup::transient);
}

// What a broken page gave back is free, but has no memory.
TEST_F(HeapTest, CountsBrokenPages) {
  memset(one(PageGroup::session, 1000), 7, 1000);
  system_.time = system_.time + Nanos::seconds(3);
  const size_t span = kSizeClassRows[size_class_of(1000)].blocks * kBlockSize;
  EXPECT_EQ(heap_.pages().break_idle(system_.time), kHugePageSize - span);
  const GroupCounts counts = heap_.count(PageGroup::session);
  EXPECT_EQ(counts.broken, 1u);
  EXPECT_EQ(counts.unbacked, kHugePageSize - span);
  EXPECT_EQ(counts.free_blocks, kHugePageSize - span);
  EXPECT_EQ(heap_.held_bytes(), span);
  EXPECT_EQ(heap_.live_bytes(), kSizeClassRows[size_class_of(1000)].size);
}

TEST_F(HeapTest, KnowsWhatLivesWithoutAWalk) {
  const int bin = bin_of(PageGroup::brief, size_class_of(64), false);
  void* slots[100];
  ASSERT_EQ(heap_.take(bin, slots, 100), 100u);
  EXPECT_EQ(heap_.live_bytes(), 100 * slot_size_of(bin));
  EXPECT_EQ(heap_.held_bytes(), kHugePageSize);
  ASSERT_EQ(heap_.deposit(bin, slots, 60), nullptr);
  EXPECT_EQ(heap_.live_bytes(), 40 * slot_size_of(bin));
  ASSERT_EQ(heap_.drain_depots(), nullptr);
  expect_counters_agree();
  Shelf& shelf = heap_.next_shelf();
  while (shelf.room < kRunMax) shelf.earn(kRunMax);
  Span* run = heap_.allocate(kRunMax / 2, 1, PageGroup::brief, false);
  const int large = kSizeClasses - 1;
  ASSERT_TRUE(heap_.shelve(shelf, large, heap_.take_one(large)));
  heap_.hide(run);
  EXPECT_TRUE(heap_.shelve_run(shelf, run));
  EXPECT_EQ(heap_.live_bytes(), 40 * slot_size_of(bin));
  EXPECT_EQ(heap_.shelved_bytes(), kRunMax / 2 + kSmallMax);
  heap_.release(Nanos::max(), 0);
  ASSERT_EQ(heap_.give(bin, slots + 60, 40), nullptr);
  EXPECT_EQ(heap_.live_bytes(), 0u);
  EXPECT_EQ(heap_.held_bytes(), 0u);
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
        h.span = bytes > kRunMax || random() % 2 ? heap_.allocate(bytes, 1, group, false)
                                                 : heap_.allocate_growing(bytes, group);
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
      heap_.direct().release(system_.time);
      system_.time = system_.time + Nanos::millis(700);
      heap_.pages().promote_expired(system_.time);
      heap_.pages().break_idle(system_.time);
      expect_counters_agree();
    }
  }
  for (auto& [start, h] : used) h.span ? heap_.deallocate(h.span) : void(heap_.give_one(start));
  heap_.release(system_.time, 0);
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
    w.heap->for_each_lock([&](Lock& lock) { w.locked += lock.is_held(); });
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
  EXPECT_GT(heap_.direct().release(Nanos::max()), 0u);
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
  EXPECT_EQ(heap_.pages().counts().empty_backed, 0u);
}

}  // namespace
}  // namespace llamalloc
