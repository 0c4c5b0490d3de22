// SPDX-License-Identifier: Apache-2.0
// The record of one huge page: its used blocks, its page group, its age.
//
//   space --> used (in a set of its group) --> empty, backed --> empty, given back --> used ...
//              |   ^
//              +---+ broken: at rest for a while, so its free blocks were returned to the system.
//                    Made huge again when it fills (mended_pages.cc). In a process without huge
//                    pages, every page counts as broken from the start
//
// The user of blocks (the heap) keeps a record of them in a metadata area beside the page, indexed
// by the first block. Every allocation has at least two blocks, so 128 records are enough. The
// second half of the area holds what does not fit into a record. The area has no memory until it is
// used, and is returned to the system some time after the page (PagePool::release_tables).
//
//   records   [ record 0 | record 1 | ... 127 ][ more of record 0 | ... 127 ]     2 x 16 KiB
//
// Invariants: used_blocks == set bits of `used`; longest_run == longest run of clear bits;
// `dirty` has every block used since the page was last given back, so `used` is a subset of it.
// Guarded by the lock of the set that holds the page, or of the pool when it is empty.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "base/lifetime_class.h"
#include "base/units.h"
#include "pages/address_heap.h"

namespace llamalloc {

class PageSet;

inline constexpr uint32_t kLeastSpanBlocks = 2;
inline constexpr size_t kRecordBytes = 128;
inline constexpr size_t kRecordsBytes = kBlocksPerHugePage / kLeastSpanBlocks * kRecordBytes;
inline constexpr size_t kPageRecordBytes = 2 * kRecordsBytes;

struct BlockBits {
  static constexpr int kWords = 4;
  uint64_t words[kWords] = {};

  bool test(uint32_t i) const { return words[i >> 6] >> (i & 63) & 1; }
  void set(uint32_t first, uint32_t n) { change(first, n, true); }
  void clear(uint32_t first, uint32_t n) { change(first, n, false); }
  void clear(const BlockBits& those) {
    for (int w = 0; w < kWords; ++w) words[w] &= ~those.words[w];
  }
  void set_where_clear(const BlockBits& those) {
    for (int w = 0; w < kWords; ++w) words[w] |= ~those.words[w];
  }
  bool any(uint32_t first, uint32_t n) const;
  uint32_t count() const;
  // First index >= from whose bit equals value; 256 if there is none.
  uint32_t next(uint32_t from, bool value) const;
  // Start of the lowest run of n clear bits at a multiple of alignment; 256 if there is none.
  uint32_t find_clear(uint32_t n, uint32_t alignment) const;
  uint32_t longest_clear() const;
  // Where the run of clear bits starts that ends before bit i or goes on there; i if there is none.
  uint32_t start_of_clear(uint32_t i) const;

 private:
  void change(uint32_t first, uint32_t n, bool value);
};

struct HugePage {
  char* base = nullptr;
  // Null while the page is empty. Changed under the old set's lock; readers lock and look again.
  std::atomic<PageSet*> set{nullptr};
  AddressLinks<HugePage> links;
  // Among the empty pages with memory behind them, or those whose records alone have some.
  HugePage* older = nullptr;
  HugePage* newer = nullptr;
  BlockBits used;
  BlockBits dirty;
  uint16_t used_blocks = 0;
  uint16_t longest_run = kBlocksPerHugePage;
  uint16_t mended_from = 0;  // used blocks: so full a broken one must be, and half, to be mended
  // Changed under the set's lock; read without it by code that owns a span in the page.
  std::atomic<PageGroup> group{PageGroup::unknown};
  bool promoted = false;    // its objects outlived their deadline, or it was taken over
  bool broken = false;      // on small pages; blocks that are not `dirty` have no memory
  bool backed = false;      // has, or may have, memory behind it
  bool committed = true;    // false, where it is empty: to be committed before it is touched
  bool given_back = false;  // among the pool's pages without memory
  bool has_tables = false;  // given back, but not yet its records and its part of the tables
  Nanos opened{};           // when it took its first span
  Nanos emptied{};          // when it lost its last span
  Nanos left{};             // when it was given back
  // When blocks were last taken in it or, in groups with a deadline, an object. Written under the
  // lock of a bin or of the set, read by the worker. A stale value can only make a promotion come
  // earlier.
  std::atomic<int64_t> last_taken{0};
  // When the last blocks were, also by a run that grew: objects that are placed among others touch
  // no free block.
  std::atomic<int64_t> blocks_taken{0};

  char* records = nullptr;  // kPageRecordBytes
  // The huge page whose table entries are on the same small page (page_tables.h); null: none.
  HugePage* neighbour = nullptr;

  const char* address() const { return base; }
  // Of its address, among all 2 MiB of address space.
  uintptr_t number() const { return reinterpret_cast<uintptr_t>(base) / kHugePageSize; }
  void note_taken(Nanos now) {
    last_taken.store(now.n, std::memory_order_relaxed);
    blocks_taken.store(now.n, std::memory_order_relaxed);
  }
  // Clear bits are free blocks; of a broken page, if not may_back, those that have memory.
  BlockBits taken(bool may_back) const {
    BlockBits rest = used;
    if (broken && !may_back) rest.set_where_clear(dirty);
    return rest;
  }
  // Blocks that have, or may have, memory behind them.
  uint32_t backed_blocks() const {
    return !backed ? 0 : broken ? dirty.count() : static_cast<uint32_t>(kBlocksPerHugePage);
  }
  void* record_at(uint32_t first_block) const {
    return records + first_block / kLeastSpanBlocks * kRecordBytes;
  }
  uint32_t block_at(const char* address) const {
    return static_cast<uint32_t>(address - base) >> kBlockShift;
  }
  bool is_consistent() const {
    return used_blocks == used.count() && longest_run == used.longest_clear();
  }
};

}  // namespace llamalloc
