// SPDX-License-Identifier: Apache-2.0
// A span: consecutive blocks of one huge page that hold slots of one size and one page group.
// A run is a span with one object of whole blocks; a direct mapping is a run outside the heap's
// pages.
//
//   blocks   [ slot 0 | slot 1 | slot 2 | ...            | rest ]
//   words    bit = 1: the slot is free and not cached      64 slots in each word
//
// A thread takes slots (which clears their bits) and then hands them out itself. It gives many back
// at once. So a clear bit means that the program, a thread's cache or a depot holds the slot.
// Invariant: free_slots == number of set bits, guarded by the lock of the span's bin.
// The record is stored with those of the other spans of the huge page (huge_page.h), not with the
// objects. We write nothing into slots, so a program that writes to freed memory cannot break us.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/lifetime_class.h"
#include "heap/bin_number.h"
#include "heap/size_class.h"
#include "pages/huge_page.h"

namespace llamalloc {

enum class SpanKind : uint8_t { slots, run, direct };

struct alignas(kCacheLine) Span {
  char* base;
  uint64_t magic;      // slots: of the size class; others: 1, so that only offset 0 is a start
  uint32_t slot_size;  // slots only; others 0
  uint16_t bin;        // its number (bin_number.h)
  SpanKind kind;
  bool sampled;  // every object in it is a sample
  bool fresh;    // a direct mapping, or a run of blocks never used: reads as zero
  bool grown;    // a direct mapping just allocated: reads as zero from byte `used` on
  uint8_t word_count;
  uint16_t slots;
  uint16_t free_slots;
  HugePage* page;  // null for direct mappings
  union {
    AddressLinks<Span> links;  // among the spans of the bin that have free slots
    struct {
      size_t bytes;       // run, direct: size as asked, rounded up to blocks or small pages
      Span* next_direct;  // in a list of freed mappings
      union {
        int64_t freed;  // direct mapping that is kept: when it was freed, in Nanos
        size_t used;    // direct mapping, if grown: bytes that it kept of an earlier object
        struct {
          bool resized;     // run: since it was allocated
          PageGroup asked;  // run: the group that it was allocated for
        };
      };
    };
  };

  static constexpr int kNearWords = 8;

  // If the span has more words than kNearWords, they are in the second half of the page's records.
  uint64_t* words() {
    char* record = reinterpret_cast<char*>(this);
    return reinterpret_cast<uint64_t*>(
        record + (word_count <= kNearWords ? kRecordBytes / 2 : kRecordsBytes));
  }
  const uint64_t* words() const { return const_cast<Span*>(this)->words(); }
  // Words change under the lock of the bin; statistics count them without it.
  static void store_word(uint64_t* word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
  }
  const char* address() const { return base; }
  // What runs and direct mappings have in common: one object, and no thread may cache it.
  void become_whole(SpanKind as) {
    kind = as;
    magic = 1;
    slot_size = 0;
    bin = 0;
    word_count = 0;
    slots = free_slots = 0;
    grown = false;
    page = nullptr;
  }
  // Whether the pointer into the span is the start of an object: one multiplication.
  bool starts_object(const void* pointer) const {
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(pointer) - base);
    return offset * magic < magic;
  }
  // The bin, if threads may cache the slots; else kNoLocalBin.
  int local_bin() const { return kind == SpanKind::slots && !sampled ? bin : kNoLocalBin; }
  // The slot that the pointer into the span lies in.
  uint32_t slot_of(const void* pointer) const {
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(pointer) - base);
    return static_cast<uint32_t>(static_cast<unsigned __int128>(offset) * magic >> 64);
  }
  size_t object_size() const {
    return kind == SpanKind::slots ? slot_size : __atomic_load_n(&bytes, __ATOMIC_RELAXED);
  }
  // Of a run that others may look at: statistics read it without its owner.
  void store_bytes(size_t now) { __atomic_store_n(&bytes, now, __ATOMIC_RELAXED); }
  uint32_t count_free() const {
    uint32_t n = 0;
    for (const uint64_t *word = words(), *end = word + word_count; word != end; ++word)
      n += static_cast<uint32_t>(std::popcount(__atomic_load_n(word, __ATOMIC_RELAXED)));
    return n;
  }
  // Of an object just allocated that is no slot: its bytes that may not read as zero.
  size_t used_bytes() const { return fresh ? 0 : grown ? used : bytes; }
  bool is_consistent() const { return count_free() == free_slots && free_slots <= slots; }
};
static_assert(sizeof(Span) == kRecordBytes / 2);

}  // namespace llamalloc
