// SPDX-License-Identifier: Apache-2.0
// A span: consecutive blocks of one huge page that hold slots of one size and one page group.
// A run is a span with one object of whole blocks; a direct mapping is a run outside the heap's
// pages.
//
//   blocks   [ slot 0 | slot 1 | slot 2 | ...            | rest ]
//   words    bit = 1: the slot is free and not cached      64 slots in each word
//
// A thread takes slots (which clears their bits) and then hands them out itself. It gives many back
// at once. So a clear bit means that the program, a thread's cache, a depot or a shelf has the
// slot.
//
// Bits are cleared under the lock of the span's bin and set without it: by whoever holds the slot,
// who then adds to free_slots. So under the lock free_slots never exceeds the number of set bits,
// and is below it (also below 0) by what was set and not added yet. (Without the lock it may: by
// what a thread that holds the lock is taking.) Whose sum makes it positive appends the span to
// those that wait to be listed; whose sum makes it equal to `slots` frees the span, under the lock
// (Heap::note_freed). Until its sum is done, the span cannot become free; after it, the record may
// be another span's. A span of one slot, unless a shard has it, needs neither sum nor lock: whoever
// sets its bit frees it (Heap::open_unlisted).
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
  uint64_t magic;  // slots: of the size class; others: 1, so that only offset 0 is a start
  union {
    uint32_t slot_size;  // slots only; others 0
    uint32_t spare;  // a direct mapping in use: small pages behind `bytes` that nobody asked for
  };
  // Slots: whose list it belongs to, and whether it is in it. Guarded by the lock of that bin; one
  // load sees a state that was, in which a listed span is in that list (Heap::free_if_empty).
  union alignas(4) {
    uint32_t home;
    struct {
      uint16_t bin;    // its number (bin_number.h); kNoSpanBin: not slots
      uint8_t shard;   // 0: of the bin itself (bin_shards.h)
      uint8_t listed;  // Listed
    };
  };
  enum class Listed : uint8_t { no, yes, spare };
  SpanKind kind;
  bool sampled;  // every object in it is a sample
  bool fresh;    // a direct mapping, or a run of blocks never used: reads as zero
  bool grown;    // a direct mapping just allocated: reads as zero from byte `used` on
  uint16_t slots;
  int16_t free_slots;
  HugePage* page;  // null for direct mappings
  union {
    AddressLinks<Span> links;  // among the spans of the bin that have free slots
    struct {
      size_t bytes;       // run, direct: size as asked, rounded up to blocks or small pages
      Span* next_direct;  // in a list of freed mappings
      union {
        int64_t freed;  // direct mapping that is kept: when it was freed, in Nanos
        size_t used;    // direct mapping, if grown: bytes that it kept of an earlier object
        Span** back;    // one with spare pages: to the link of a list; null: they have no memory
        struct {
          bool resized;     // run: since it was allocated
          PageGroup asked;  // run: the group that it was allocated for
        };
      };
    };
  };

  static constexpr int kNearWords = 8;

  int word_count() const { return (slots + 63) / 64; }
  // If the span has more words than kNearWords, they are in the second half of the page's records.
  uint64_t* words() {
    char* record = reinterpret_cast<char*>(this);
    return reinterpret_cast<uint64_t*>(
        record + (slots <= kNearWords * 64 ? kRecordBytes / 2 : kRecordsBytes));
  }
  const uint64_t* words() const { return const_cast<Span*>(this)->words(); }
  // Sets bits, whose slots the caller holds; those that were set already are returned. The release
  // pairs with the acquire in clear_bits: what the last owner of the slot did comes first.
  static uint64_t set_bits(uint64_t* word, uint64_t bits) {
    return __atomic_fetch_or(word, bits, __ATOMIC_RELEASE) & bits;
  }
  // Clears bits that are set, under the bin's lock.
  static void clear_bits(uint64_t* word, uint64_t bits) {
    __atomic_fetch_and(word, ~bits, __ATOMIC_ACQUIRE);
  }
  // In one order with add_free and with the list of those that wait (Heap::note_freed).
  int free_now() const { return __atomic_load_n(&free_slots, __ATOMIC_SEQ_CST); }
  // Returns the sum. Whoever sees the span free also sees what was done in its slots.
  int add_free(int n) {
    return static_cast<int16_t>(
        __atomic_add_fetch(&free_slots, static_cast<int16_t>(n), __ATOMIC_SEQ_CST));
  }
  // Of a span that nobody has yet.
  void store_free(int n) {
    __atomic_store_n(&free_slots, static_cast<int16_t>(n), __ATOMIC_RELAXED);
  }
  // What was true at one moment. The record may be another span's by now.
  struct Home {
    int bin, shard;  // bin: kNoSpanBin if not slots
    Listed listed;
    // Whether slots that were taken of the bin may lie here: its spans may be another group's since
    // (Heap::join_spans, Heap::take_from_groups).
    bool serves(int wanted) const {
      return bin == wanted || (bin != kNoSpanBin && bin_of_unknown(bin) == bin_of_unknown(wanted));
    }
  };
  // While it is listed bin and shard change under the locks of both bins; while it is not, never.
  Home home_now() const {
    const uint32_t word = __atomic_load_n(&home, __ATOMIC_ACQUIRE);
    return {static_cast<int>(word & 0xffff), static_cast<int>(word >> 16 & 0xff),
            static_cast<Listed>(word >> 24)};
  }
  int bin_now() const { return __atomic_load_n(&bin, __ATOMIC_RELAXED); }
  bool serves(int wanted) const { return home_now().serves(wanted); }
  void set_bin(int number) {
    __atomic_store_n(&bin, static_cast<uint16_t>(number), __ATOMIC_RELAXED);
  }
  void set_shard(int number) {
    __atomic_store_n(&shard, static_cast<uint8_t>(number), __ATOMIC_RELAXED);
  }
  void set_listed(Listed now) {
    __atomic_store_n(&listed, static_cast<uint8_t>(now), __ATOMIC_RELEASE);
  }
  // Under the lock of its bin.
  bool is_listed() const { return home_now().listed != Listed::no; }
  bool is_spare() const { return home_now().listed == Listed::spare; }  // wholly free and kept
  const char* address() const { return base; }
  // What runs and direct mappings have in common: one object, and no thread may cache it.
  void become_whole(SpanKind as) {
    kind = as;
    set_bin(kNoSpanBin);
    magic = 1;
    slot_size = 0;
    slots = 0;
    store_free(0);
    grown = false;
    page = nullptr;
  }
  // Whether the pointer into the span is the start of an object: one multiplication.
  bool starts_object(const void* pointer) const {
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(pointer) - base);
    return offset * magic < magic;
  }
  // The bin, if threads may cache the slots; else kNoLocalBin.
  int local_bin() const { return kind == SpanKind::slots && !sampled ? bin_now() : kNoLocalBin; }
  // The slot that the pointer lies in; at least `slots` if it lies behind them, or elsewhere.
  uint64_t slot_of(const void* pointer) const {
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(pointer) - base);
    return static_cast<uint64_t>(static_cast<unsigned __int128>(offset) * magic >> 64);
  }
  bool has_free(uint64_t slot) const {
    return (__atomic_load_n(&words()[slot >> 6], __ATOMIC_RELAXED) >> (slot & 63) & 1) != 0;
  }
  size_t object_size() const {
    return kind == SpanKind::slots ? slot_size : __atomic_load_n(&bytes, __ATOMIC_RELAXED);
  }
  // Of a run that others may look at: statistics read it without its owner.
  void store_bytes(size_t now) { __atomic_store_n(&bytes, now, __ATOMIC_RELAXED); }
  uint32_t count_free() const {
    uint32_t n = 0;
    for (const uint64_t *word = words(), *end = word + word_count(); word != end; ++word)
      n += static_cast<uint32_t>(std::popcount(__atomic_load_n(word, __ATOMIC_RELAXED)));
    return n;
  }
  size_t spare_bytes() const { return spare * kSmallPage; }
  // Of an object just allocated that is no slot: its bytes that may not read as zero.
  size_t used_bytes() const { return fresh ? 0 : grown ? used : bytes; }
  // Under the lock of the bin; the sum is read first, since bits are set meanwhile.
  bool is_consistent() const {
    const int sum = free_now();
    return sum <= slots && sum <= static_cast<int>(count_free());
  }
  // While nobody gives slots back.
  bool is_settled() const { return free_now() == static_cast<int>(count_free()); }
};
static_assert(sizeof(Span) == kRecordBytes / 2 && std::endian::native == std::endian::little);

}  // namespace llamalloc
