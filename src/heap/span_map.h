// SPDX-License-Identifier: Apache-2.0
// From an address to its span: two loads, whatever the address.
//
//   root[address >> 32] -> leaf { tags[address >> 13 & 0x7ffff]
//                                 spans[the same] }                Span, or null if not ours
//
// A tag is what a free has to know of slots that a thread may cache: where their span starts, and
// their bin. So it does not read the record of the span, which is one cache line for each span: in
// a large heap seldom at hand, while a line of tags serves 64 KiB.
//
// A leaf (8 MiB of address space for 4 GiB of heap, backed page by page as used: 0.2 % of the heap)
// stays for ever, so that a reader needs no lock. An object belongs to the program that frees it,
// so nobody changes an entry while somebody has the right to look it up. Only statistics look at
// what is not theirs: by find_any, under the lock of the page's set, without which no record of the
// page is made anew.
//
// A small page of a leaf tells of two huge pages. When both went back to the system it holds only
// zeroes, and goes as well: it reads as zeroes afterwards, so that a reader of an address that
// holds no object sees no difference. Nobody writes to it meanwhile: entries of a huge page are set
// by whoever has it, and during that moment nobody has or can get either (PagePool).
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

// [ -start of the span | bin ]: pointer + tag - bin is the offset in the span. The bin has the bits
// in which the start of a block is 0. All is 0 for what no thread may cache.
class SpanTag {
 public:
  constexpr SpanTag() = default;
  SpanTag(const void* start, int local_bin)
      : bits_(static_cast<uintptr_t>(local_bin - kNoLocalBin) * sizeof(uint64_t) -
              reinterpret_cast<uintptr_t>(start)) {}

  // Where the bin's word is in a table that starts with that of kNoLocalBin, in bytes.
  size_t bin_offset() const { return bits_ & (kBlockSize - 1); }
  // Of the pointer, in the span.
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
  // The acquire pairs with the release in set: the span is whole, whoever made it.
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

  // Memory behind the leaves.
  size_t resident_bytes(PageSource& system) const {
    size_t bytes = 0;
    for (const auto& entry : root_)
      if (Leaf* leaf = entry.load(std::memory_order_relaxed))
        bytes += system.resident(leaf, sizeof(Leaf));
    return bytes;
  }

  // Whether the entries of two addresses lie in one small page of a leaf.
  static bool share_a_page(const void* a, const void* b) { return page_of(a) == page_of(b); }
  // Gives the small pages around the address's entry back to the system: all of it is null, and
  // nobody else sets an entry in it meanwhile.
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

  // Of what no thread may cache: it has no tags.
  void set(const void* start, Blocks blocks, Span* span) {
    for_each_entry(start, blocks, [span](Leaf& leaf, size_t i) {
      leaf.spans[i].store(span, std::memory_order_release);
    });
  }
  // Slots that a thread may cache; span null: they are gone.
  void set_slots(const void* start, Blocks blocks, Span* span, int local_bin) {
    SpanTag tag;
    if (span != nullptr) {
      tag = SpanTag(start, local_bin);
      magics_[static_cast<size_t>(local_bin - kNoLocalBin)].store(span->magic,
                                                                  std::memory_order_relaxed);
    }
    for_each_entry(start, blocks, [tag](Leaf& leaf, size_t i) {
      leaf.tags[i].store(tag, std::memory_order_relaxed);
    });
    set(start, blocks, span);
  }

 private:
  struct Leaf {
    std::atomic<SpanTag> tags[kLeafEntries];
    std::atomic<Span*> spans[kLeafEntries];
  };

  template <typename F>
  void for_each_entry(const void* start, Blocks blocks, F&& f) {
    for (uint32_t i = 0; i < blocks.n; ++i) {
      const uintptr_t address = reinterpret_cast<uintptr_t>(start) + i * kBlockSize;
      f(*root_[address >> kLeafShift].load(std::memory_order_relaxed), index_of(address));
    }
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
    void* leaf = system.map(sizeof(Leaf), kSmallPage);
    if (leaf == nullptr) return false;
    system.advise_huge(leaf, sizeof(Leaf), false);
    Leaf* expected = nullptr;
    // A leaf is zero when published; readers depend on the pointer itself, so release suffices.
    if (!root_[i].compare_exchange_strong(expected, static_cast<Leaf*>(leaf),
                                          std::memory_order_release))
      system.unmap(leaf, sizeof(Leaf));
    return true;
  }

  std::array<std::atomic<Leaf*>, kRootEntries> root_{};
  // By bin, from kNoLocalBin on, whose is 0: below that is nothing. Set with the bin's first span.
  std::array<std::atomic<uint64_t>, kLocalBins - kNoLocalBin> magics_{};
};

// The map as the pool of huge pages sees it. Not the map itself: that has no word beside its
// zeroes.
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
