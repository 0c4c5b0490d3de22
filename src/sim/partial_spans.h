// SPDX-License-Identifier: Apache-2.0
// The spans of one size class that have free slots, and which of them is used next.
//
//   LowestSpans   the lowest address
//   FullestSpans  the fullest eighth first (tcmalloc's central free list); in it the latest
#pragma once

#include <bit>
#include <cstdint>

#include "pages/address_heap.h"
#include "pages/huge_page.h"

namespace llamalloc::sim {

struct SlabSpan {
  uint64_t offset = 0;
  HugePage* page = nullptr;
  uint16_t size_class = 0;
  uint16_t slots = 0;
  uint16_t free = 0;
  AddressLinks<SlabSpan> links;
  SlabSpan* before = nullptr;  // in its list
  SlabSpan* after = nullptr;
  uint64_t words[16] = {};  // bit = 1: free

  uint64_t address() const { return offset; }
};

class LowestSpans {
 public:
  SlabSpan* best() const { return heap_.min(); }
  void add(SlabSpan* span) { heap_.insert(span); }
  void remove(SlabSpan* span) { heap_.remove(span); }
  static bool moves(const SlabSpan*, uint32_t, uint32_t) { return false; }

 private:
  AddressHeap<SlabSpan> heap_;
};

class FullestSpans {
 public:
  SlabSpan* best() const { return occupied_ ? lists_[31 - std::countl_zero(occupied_)] : nullptr; }
  void add(SlabSpan* span) {
    const int list = list_of(span, span->free);
    span->before = nullptr;
    span->after = lists_[list];
    if (span->after) span->after->before = span;
    lists_[list] = span;
    occupied_ |= 1u << list;
  }
  void remove(SlabSpan* span) {
    const int list = list_of(span, span->free);
    (span->before ? span->before->after : lists_[list]) = span->after;
    if (span->after) span->after->before = span->before;
    if (lists_[list] == nullptr) occupied_ &= ~(1u << list);
  }
  // Whether a span moves to another list when its free slots change from `from` to `to`.
  static bool moves(const SlabSpan* span, uint32_t from, uint32_t to) {
    return list_of(span, from) != list_of(span, to);
  }

 private:
  static constexpr int kLists = 8;
  static int list_of(const SlabSpan* span, uint32_t free) {
    return static_cast<int>((span->slots - free) * kLists / (span->slots + 1u));
  }
  SlabSpan* lists_[kLists] = {};
  uint32_t occupied_ = 0;
};

}  // namespace llamalloc::sim
