// SPDX-License-Identifier: Apache-2.0
// From an address to its span: two loads, whatever the address.
//
//   root[address >> 30] -> leaf[(address >> 13) & 0x1ffff] -> Span, or null if not ours
//
// A leaf (1 MiB of address space for 1 GiB of heap, backed page by page as used: 0.1 % of the heap)
// stays for ever, so that a reader needs no lock. An object belongs to the program that frees it,
// so nobody changes an entry while somebody has the right to look it up. Only statistics look at
// what is not theirs: by find_any, under the lock of the page's set, without which no record of the
// page is made anew.
//
// A small page of a leaf tells of two huge pages. When both went back to the system it holds only
// nulls, and goes as well: it reads as nulls afterwards, so that a reader of an address which holds
// no object sees no difference. Nobody writes to it meanwhile: entries of a huge page are set by
// whoever has it, and during that moment nobody has or can get either (PagePool).
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

namespace llamalloc {

class SpanMap {
 public:
  static constexpr int kLeafShift = 30;
  static constexpr size_t kRootEntries = size_t{1} << (47 - kLeafShift);
  static constexpr size_t kLeafEntries = size_t{1} << (kLeafShift - kBlockShift);

  Span* find(const void* pointer) const { return look_up(pointer, std::memory_order_relaxed); }
  // The acquire pairs with the release in set: the span is whole, whoever made it.
  Span* find_any(const void* pointer) const { return look_up(pointer, std::memory_order_acquire); }

  // Memory behind the leaves.
  size_t resident_bytes(PageSource& system) const {
    size_t bytes = 0;
    for (const auto& entry : root_)
      if (Entry* leaf = entry.load(std::memory_order_relaxed))
        bytes += system.resident(leaf, kLeafEntries * sizeof(Entry));
    return bytes;
  }

  // Whether the entries of two addresses lie in one small page of a leaf.
  static bool share_a_page(const void* a, const void* b) { return page_of(a) == page_of(b); }
  // Gives the small page around the address's entry back to the system: all of it is null, and
  // nobody else sets an entry in it meanwhile.
  void discard(const void* address, PageSource& system) {
    const uintptr_t first = page_of(address) * kPageEntries;
    Entry* page =
        root_[first / kLeafEntries].load(std::memory_order_relaxed) + first % kLeafEntries;
    SLOW_DCHECK(std::all_of(page, page + kPageEntries, [](const Entry& e) { return !e.load(); }));
    system.discard(page, kPageEntries * sizeof(Entry));
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

  void set(const void* start, Blocks blocks, Span* span) {
    for (uint32_t i = 0; i < blocks.n; ++i) {
      const uintptr_t address = reinterpret_cast<uintptr_t>(start) + i * kBlockSize;
      Entry* leaf = root_[address >> kLeafShift].load(std::memory_order_relaxed);
      leaf[(address >> kBlockShift) & (kLeafEntries - 1)].store(span, std::memory_order_release);
    }
  }

 private:
  using Entry = std::atomic<Span*>;

  [[gnu::always_inline]] Span* look_up(const void* pointer, std::memory_order order) const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const size_t top = address >> kLeafShift;
    if (__builtin_expect(top >= kRootEntries, 0)) return nullptr;
    Entry* leaf = root_[top].load(std::memory_order_relaxed);
    if (__builtin_expect(leaf == nullptr, 0)) return nullptr;
    return leaf[(address >> kBlockShift) & (kLeafEntries - 1)].load(order);
  }

  static constexpr size_t kPageEntries = kSmallPage / sizeof(Entry);
  static uintptr_t page_of(const void* address) {
    return (reinterpret_cast<uintptr_t>(address) >> kBlockShift) / kPageEntries;
  }
  bool ensure_leaf(size_t i, PageSource& system) {
    if (root_[i].load(std::memory_order_relaxed)) return true;
    constexpr size_t kBytes = kLeafEntries * sizeof(Entry);
    void* leaf = system.map(kBytes, kSmallPage);
    if (leaf == nullptr) return false;
    system.advise_huge(leaf, kBytes, false);
    Entry* expected = nullptr;
    // A leaf is zero when published; readers depend on the pointer itself, so release suffices.
    if (!root_[i].compare_exchange_strong(expected, static_cast<Entry*>(leaf),
                                          std::memory_order_release))
      system.unmap(leaf, kBytes);
    return true;
  }

  std::array<std::atomic<Entry*>, kRootEntries> root_{};
};

}  // namespace llamalloc
