// SPDX-License-Identifier: Apache-2.0
// Maps any address to its span in two loads (a page map).
//
//   root[address >> 32] -> leaf { tags[address >> 13 & 0x7ffff]
//                                 spans[the same] }                Span, or null if not ours
//
// A tag holds what free needs to know about a slot that a thread may cache: the start of its span,
// and its bin. So free does not read the span's record. Each record is a cache line of its own,
// which in a large heap is rarely cached, while one line of tags covers 64 KiB.
//
// Of a run, and of a span with one slot, only the first block has an entry.
//
// A leaf (8 MiB of address space for 4 GiB of heap, backed page by page as used: 0.2 % of the heap)
// is never freed, so readers need no lock. Only the owner of an object may look it up, and its
// entry does not change while the object has an owner, but for the bin: its span may change its
// group, and its slots may be given back to either (Heap::join_spans, take_from_groups). Statistics
// are different: they call find_any under the lock of the page's set, and a new record in the page
// needs that lock too.
//
// One small page of a leaf describes two huge pages. When both are returned to the system it holds
// only zeroes, so it is returned too. It reads as zeroes afterwards, so readers see no difference.
// Nobody writes to it meanwhile: only the user of a huge page sets its entries, and during that
// moment nobody uses or can get either of the two (PagePool).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/units.h"
#include "heap/span.h"
#include "os/pages.h"
#include "pages/page_tables.h"

namespace llamalloc {

// [ -start of the span | bin ]: pointer + tag - bin is the offset in the span. The bin is in the
// low bits, which are 0 in the start of a block. The whole tag is 0 if no thread may cache the
// object.
class SpanTag {
 public:
  constexpr SpanTag() = default;
  SpanTag(const void* start, int local_bin)
      : bits_(static_cast<uintptr_t>(local_bin - kNoLocalBin) * sizeof(uint64_t) -
              reinterpret_cast<uintptr_t>(start)) {}

  // The offset, in bytes, of the bin's word in a table whose first word is for kNoLocalBin.
  size_t bin_offset() const { return bits_ & (kBlockSize - 1); }
  // The pointer's offset in the span.
  uint64_t offset_of(const void* pointer) const {
    return bits_ + reinterpret_cast<uintptr_t>(pointer) - bin_offset();
  }

 private:
  uintptr_t bits_ = 0;
};
static_assert((kLocalBins - kNoLocalBin) * sizeof(uint64_t) <= kBlockSize);

class SpanMap {
 public:
  static constexpr int kLeafShift = 32;
  static constexpr size_t kRootEntries = size_t{1} << (47 - kLeafShift);
  static constexpr size_t kLeafEntries = size_t{1} << (kLeafShift - kBlockShift);

  Span* find(const void* pointer) const { return look_up(pointer, std::memory_order_relaxed); }
  // The acquire pairs with the release in set: the span is initialised, whichever thread made it.
  Span* find_any(const void* pointer) const { return look_up(pointer, std::memory_order_acquire); }

  // False: not ours.
  [[gnu::always_inline]] bool find_tag(const void* pointer, SpanTag* tag) const {
    const Leaf* leaf = leaf_of(pointer);
    if (__builtin_expect(leaf == nullptr, 0)) return false;
    *tag = leaf->tags[index_of(pointer)].load(std::memory_order_relaxed);
    return true;
  }
  // Whether the pointer is the start of a slot that a thread may cache: one multiplication.
  [[gnu::always_inline]] bool starts_slot(const void* pointer, SpanTag tag) const {
    const uint64_t magic = magic_of(tag)->load(std::memory_order_relaxed);
    return tag.offset_of(pointer) * magic < magic;
  }

  // Resident bytes of the leaves.
  size_t resident_bytes(PageSource& system) const {
    size_t bytes = 0;
    for (const auto& entry : root_)
      if (Leaf* leaf = entry.load(std::memory_order_relaxed))
        bytes += system.resident(leaf, sizeof(Leaf));
    return bytes;
  }

  // Whether the entries of two addresses lie in one small page of a leaf.
  static bool share_a_page(const void* a, const void* b) { return page_of(a) == page_of(b); }
  // Returns the small pages with the address's entries to the system. All their entries are null,
  // and nobody sets one meanwhile.
  void discard(const void* address, PageSource& system) {
    Leaf* leaf = leaf_of(address);
    const size_t first = index_of(address) / kPageEntries * kPageEntries;
    auto* spans = &leaf->spans[first];
    SLOW_DCHECK(
        std::all_of(spans, spans + kPageEntries, [](const auto& span) { return !span.load(); }));
    system.discard(spans, kSmallPage);
    system.discard(&leaf->tags[first], kSmallPage);
  }

  // Makes the leaves that cover the space; false if the system has no memory.
  bool cover(const void* start, size_t bytes, PageSource& system) {
    const size_t first = reinterpret_cast<uintptr_t>(start) >> kLeafShift;
    const size_t last = (reinterpret_cast<uintptr_t>(start) + bytes - 1) >> kLeafShift;
    if (last >= kRootEntries) return false;
    for (size_t i = first; i <= last; ++i)
      if (!ensure_leaf(i, system)) return false;
    return true;
  }

  // Keeps address space for one leaf more, so that cover() of one address does not fail. False: no
  // memory.
  bool keep_spare(PageSource& system) {
    if (spare_.load(std::memory_order_relaxed) != nullptr) return true;
    Leaf* leaf = new_leaf(system);
    Leaf* expected = nullptr;
    if (leaf != nullptr &&
        !spare_.compare_exchange_strong(expected, leaf, std::memory_order_relaxed))
      system.unmap(leaf, sizeof(Leaf));
    return leaf != nullptr;
  }

  // For objects that no thread may cache: they have no tags. All blocks are of one huge page.
  void set(const void* start, Blocks blocks, Span* span) {
    fill(&leaf_with(start).spans[index_of(start)], blocks, span, std::memory_order_release);
  }
  // For slots that a thread may cache; span null: removes them.
  void set_slots(const void* start, Blocks blocks, Span* span, int local_bin) {
    SpanTag tag;
    if (span != nullptr) {
      tag = SpanTag(start, local_bin);
      magics_[static_cast<size_t>(local_bin - kNoLocalBin)].store(span->magic,
                                                                  std::memory_order_relaxed);
    }
    // Who finds the tag of a span that changed its group finds the bin's magic.
    fill(&leaf_with(start).tags[index_of(start)], blocks, tag, std::memory_order_release);
    set(start, blocks, span);
  }

 private:
  struct Leaf {
    std::atomic<SpanTag> tags[kLeafEntries];
    std::atomic<Span*> spans[kLeafEntries];
  };

  // Of an address that is covered.
  Leaf& leaf_with(const void* address) {
    return *root_[reinterpret_cast<uintptr_t>(address) >> kLeafShift].load(
        std::memory_order_relaxed);
  }
  template <typename T>
  static void fill(std::atomic<T>* entries, Blocks blocks, T value, std::memory_order order) {
    for (auto* end = entries + blocks.n; entries != end; ++entries) entries->store(value, order);
  }
  // In bytes: an index would be two shifts.
  const std::atomic<uint64_t>* magic_of(SpanTag tag) const {
    const char* first = reinterpret_cast<const char*>(&magics_);
    return reinterpret_cast<const std::atomic<uint64_t>*>(first + tag.bin_offset());
  }
  [[gnu::always_inline]] Leaf* leaf_of(const void* pointer) const {
    const size_t top = reinterpret_cast<uintptr_t>(pointer) >> kLeafShift;
    if (__builtin_expect(top >= kRootEntries, 0)) return nullptr;
    return root_[top].load(std::memory_order_relaxed);
  }
  static size_t index_of(uintptr_t address) {
    return static_cast<uint32_t>(address) >> kBlockShift;
  }
  static size_t index_of(const void* pointer) {
    return index_of(reinterpret_cast<uintptr_t>(pointer));
  }
  [[gnu::always_inline]] Span* look_up(const void* pointer, std::memory_order order) const {
    const Leaf* leaf = leaf_of(pointer);
    if (__builtin_expect(leaf == nullptr, 0)) return nullptr;
    return leaf->spans[index_of(pointer)].load(order);
  }

  static constexpr size_t kPageEntries = kSmallPage / sizeof(Span*);
  static_assert(sizeof(SpanTag) == sizeof(Span*) && kLeafShift == 32);
  static uintptr_t page_of(const void* address) {
    return (reinterpret_cast<uintptr_t>(address) >> kBlockShift) / kPageEntries;
  }
  bool ensure_leaf(size_t i, PageSource& system) {
    if (root_[i].load(std::memory_order_relaxed)) return true;
    Leaf* leaf = new_leaf(system);
    if (leaf == nullptr) leaf = spare_.exchange(nullptr, std::memory_order_relaxed);
    if (leaf == nullptr) return root_[i].load(std::memory_order_relaxed) != nullptr;
    Leaf* expected = nullptr;
    // A leaf is zero when published; readers depend on the pointer itself, so release suffices.
    if (!root_[i].compare_exchange_strong(expected, leaf, std::memory_order_release))
      system.unmap(leaf, sizeof(Leaf));
    return true;
  }
  static Leaf* new_leaf(PageSource& system) {
    void* leaf = system.map(sizeof(Leaf), kSmallPage);
    if (leaf != nullptr) system.advise_huge(leaf, sizeof(Leaf), false);
    return static_cast<Leaf*>(leaf);
  }

  std::array<std::atomic<Leaf*>, kRootEntries> root_{};
  // By bin, starting with kNoLocalBin, whose value is 0, so that no pointer passes its test. Set
  // with the bin's first span.
  std::array<std::atomic<uint64_t>, kLocalBins - kNoLocalBin> magics_{};
  std::atomic<Leaf*> spare_{nullptr};
};

// The map as the pool of huge pages sees it. A class of its own, because SpanMap must be all zero
// at start and so has no vtable.
class SpanMapTables final : public PageTables {
 public:
  constexpr SpanMapTables(SpanMap& map, PageSource& system) : map_(map), system_(system) {}
  bool cover(const char* start, size_t bytes) override { return map_.cover(start, bytes, system_); }
  bool share_memory(const char* page, const char* other) const override {
    return SpanMap::share_a_page(page, other);
  }
  void discard(const char* page) override { map_.discard(page, system_); }

 private:
  SpanMap& map_;
  PageSource& system_;
};

}  // namespace llamalloc
