// SPDX-License-Identifier: Apache-2.0
// A page heap on fake memory.
#pragma once

#include <gtest/gtest.h>

#include "os/fake/fake_pages.h"
#include "pages/page_heap.h"

namespace llamalloc {

inline constexpr uint32_t kAll = kBlocksPerHugePage;
inline constexpr uint32_t kHalf = kAll / 2;

struct Held {
  HugePage* page = nullptr;
  char* start = nullptr;
  Blocks blocks;
};

class OnPageHeap : public testing::Test {
 protected:
  Held take(PageGroup group, uint32_t n, uint32_t alignment = 1, Grain grain = Grain::fine) {
    const PageHeap::Place place = pages_.take(group, {n}, alignment, grain);
    return place.page != nullptr ? Held{place.page, place.start(), {n}} : Held{};
  }
  void give(const Held& held) { pages_.give(held.page, held.start, held.blocks); }
  // Whether a block for the group comes from a page that was opened for another.
  bool shares(PageGroup group) {
    const Held probe = take(group, 2);
    const bool shared = probe.page->group != group;
    give(probe);
    return shared;
  }
  // A page that is full but for n blocks: they can be given.
  Held hole_in_full_page(uint32_t first, uint32_t n) {
    take(PageGroup::unknown, first);
    const Held hole = take(PageGroup::unknown, n);
    take(PageGroup::unknown, kAll - first - n);
    return hole;
  }
  void wait(int64_t seconds) { system_.time = system_.time + Nanos::seconds(seconds); }

  FakePages system_;
  MetadataArena arena_{system_};
  NoPageTables tables_;
  PageSets sets_;
  PageHeap pages_{system_, arena_, tables_, sets_};
};

}  // namespace llamalloc
