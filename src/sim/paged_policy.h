// SPDX-License-Identifier: Apache-2.0
// The base of policies that divide huge pages into blocks: the product's own page pool, direct
// mappings above kRunMax, and the counts for losses().
//
// It keeps no record of an object: free and resize get its size from the caller.
#pragma once

#include <memory>
#include <vector>

#include "heap/heap.h"
#include "os/arena.h"
#include "pages/page_pool.h"
#include "sim/policy.h"
#include "sim/sim_pages.h"

namespace llamalloc::sim {

class PagedPolicy : public Policy {
 public:
  bool open() { return pages_.open(); }
  PageLedger& ledger() override { return pages_.ledger; }
  const DirectSpace& direct() const override { return pages_.direct; }

 protected:
  static bool is_direct(uint64_t bytes, uint64_t alignment) { return !fits_run(bytes, alignment); }
  uint64_t take_direct(uint64_t bytes) {
    const uint64_t offset = pages_.direct.take(bytes);
    if (offset != kNoAddress) rounding_ += DirectSpace::backed(bytes) - bytes;
    return offset;
  }
  void give_direct(uint64_t offset, uint64_t bytes) {
    rounding_ -= DirectSpace::backed(bytes) - bytes;
    pages_.direct.give(offset, bytes);
  }
  HugePage* acquire() {
    HugePage* page = pool_.acquire();
    if (page) ++used_pages_;
    return page;
  }
  void put_empty(HugePage* page, Nanos now) {
    --used_pages_;
    pool_.put_empty(page, now);
  }
  uint64_t offset_of(const HugePage* page, uint32_t block) const {
    return pages_.offset_of(page->base) + uint64_t{block} * kBlockSize;
  }
  // Index of the block at an offset, for tables by block.
  static size_t block_at(uint64_t offset) { return offset >> kBlockShift; }

  SimPages pages_;
  MetadataArena arena_{pages_};
  NoPageTables tables_;
  PagePool pool_{pages_, arena_, tables_};
  size_t used_pages_ = 0;     // huge pages in use
  uint64_t used_blocks_ = 0;  // blocks in use
  uint64_t rounding_ = 0;
};

}  // namespace llamalloc::sim
