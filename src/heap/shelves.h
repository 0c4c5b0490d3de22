// SPDX-License-Identifier: Apache-2.0
// Large slots and runs that threads freed, kept for the next request of just that kind. The way
// to their blocks takes the lock of a page set, which all threads share; a shelf
// takes one atomic operation on a line that mostly one thread writes.
//
//   shelf   [ room, held, tops ][ row 0: eight places ] ... [ row 14 ]
//   place   address << 16 | kind; 0: empty
//
// A row is a cache line. Each kind has a home, the row where it begins; what has no place there
// goes to the rows behind it, up to the home's top. So a batch of objects of many sizes is found
// again in a row or two, and where there is none of a kind, one row shows it. The thread of a shelf
// puts and takes at the top, others take from the bottom.
//
// Only the places count: a word comes to one and leaves it by a compare-and-swap or an exchange, so
// each object has one owner. Counts and tops are hints, and may be wrong where threads share the
// shelf or a drain comes in between. What then lies behind a top stays until the next drain, which
// looks at all places.
//
// A thread has a shelf; where there are more threads than shelves, some share one. Anyone may take
// from any place: what is shelved returns to the heap with each step of the worker, and before a
// page is taken from the system. So it adds to no peak. A slot on a shelf is not free in its span;
// a run is in no map.
//
// Room is earned: each time that a shelf did not help and the thread needs a lock, it may hold
// kEarned bytes more; once a second the room halves. So a MiB stays only where ten thousand visits
// a second win it back, which would take a few thousandths of a processor, and nothing stays where
// large objects are few. A thread that waits for the locks of others earns kEarnedWaiting.
// (Without a worker no room halves; what grows empties the shelves.)
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/lifetime_class.h"
#include "base/units.h"
#include "heap/bin_number.h"
#include "heap/span.h"

namespace llamalloc {

// What is on a place: a slot of a bin, or a run of so many blocks that was asked for by a group.
struct Kind {
  uint32_t word;

  static constexpr Kind of_slot(int bin) { return {static_cast<uint32_t>(bin)}; }
  static constexpr Kind of_run(PageGroup group, Blocks blocks) {
    return {kRun | static_cast<uint32_t>(group) << 8 | (blocks.n - 1)};
  }
  static constexpr uint32_t kRun = 1 << 11;
  static_assert(kLocalBins <= kRun && kPageGroups <= 8 && kBlocksPerHugePage <= 256);
  bool is_run() const { return (word & kRun) != 0; }
  size_t bytes() const {
    return is_run() ? Blocks{(word & 0xff) + 1}.bytes() : slot_size_of(static_cast<int>(word));
  }
};

struct alignas(4 * kCacheLine) Shelf {
  static constexpr uint32_t kRows = 15, kInRow = kCacheLine / sizeof(uintptr_t);
  static constexpr uint32_t kPlaces = kRows * kInRow;
  static constexpr uint32_t kHomes = 16;  // of kinds; two of them begin in row 0
  static constexpr uint8_t kManyMisses = 30;
  static constexpr uint8_t kRefused = 15;
  static constexpr uint32_t kEarned = 64, kEarnedWaiting = 4096;  // bytes
  // Up to `most` bytes.
  void earn(size_t most, uint32_t bytes = kEarned) {
    const uint32_t now = room.load(std::memory_order_relaxed);
    if (now < most) room.store(now + bytes, std::memory_order_relaxed);
  }
  // What is of that kind and aligned to so many blocks, or null: the address of a slot, the record
  // of a run.
  void* take(Kind kind, uint32_t alignment = 1);
  // The same for another thread, from the other end.
  void* steal(Kind kind, uint32_t alignment);
  // False: there is no room. blocks: a run's address in blocks, for take().
  bool put(Kind kind, const void* what, uintptr_t blocks = 0);
  // Whether the slot lies on it: then it was freed twice.
  bool holds(int bin, const void* slot) const;

  std::atomic<uint32_t> room{0};  // bytes
  // Bytes, what others took included until that matters: who takes from here writes no line but
  // that of the place.
  std::atomic<uint32_t> held{0};
  std::atomic<uint8_t> used{0};         // places, in the same way
  std::atomic<uint8_t> misses{0};       // since its thread freed something
  std::atomic<uint8_t> other{0};        // the shelf where to look then
  std::atomic<uint8_t> full{0};         // puts that are refused without another count
  std::atomic<uint8_t> tops[kHomes]{};  // rows behind the one where the home's kinds begin
  struct alignas(kCacheLine) Row {
    std::atomic<uintptr_t> places[kInRow]{};
  };
  Row rows[kRows];

  static uint32_t home_of(uintptr_t word) { return word % kHomes; }
  Row& row_at(uint32_t home, uint32_t n) { return rows[(home + n) % kRows]; }
  const Row& row_at(uint32_t home, uint32_t n) const { return rows[(home + n) % kRows]; }
  uint32_t top_of(uint32_t home) const {
    return std::min<uint32_t>(tops[home].load(std::memory_order_relaxed), kRows - 1);
  }
  static void* take_from(std::atomic<uintptr_t>& place, Kind kind, uint32_t alignment);
  bool put_in(Row& row, uintptr_t word);
  void count_taken(Kind kind);
  bool has_room(size_t bytes);
  bool count_again();
  size_t count_held(uint32_t* places) const;

  // After all was taken. What is put meanwhile may be behind a top: the next drain finds it.
  void forget() {
    held.store(0, std::memory_order_relaxed);
    used.store(0, std::memory_order_relaxed);
    full.store(0, std::memory_order_relaxed);
    for (auto& top : tops) top.store(0, std::memory_order_relaxed);
  }
  // Above the kind: log2 of the alignment of a run, in blocks.
  static constexpr int kAlignedShift = 12, kAlignedMost = 7, kKindBits = 16;
  static constexpr uintptr_t kKindMask = (1 << kAlignedShift) - 1;
  static uintptr_t word_of(Kind kind, const void* what, int aligned) {
    return reinterpret_cast<uintptr_t>(what) << kKindBits |
           static_cast<uintptr_t>(aligned) << kAlignedShift | kind.word;
  }
  static Kind kind_of(uintptr_t word) { return {static_cast<uint32_t>(word & kKindMask)}; }
  static void* what_of(uintptr_t word) { return reinterpret_cast<void*>(word >> kKindBits); }
};
static_assert(sizeof(Shelf) == size_t{16} * kCacheLine);

class Shelves {
 public:
  static constexpr uint32_t kShelves = 64;

  // For one more thread.
  Shelf& next() { return shelves_[threads_.fetch_add(1, std::memory_order_relaxed) % kShelves]; }
  bool put(Shelf& shelf, Kind kind, const void* what, uintptr_t blocks = 0) {
    if (!shelf.put(kind, what, blocks)) return false;
    // Afterwards: a drain that missed it has set this to false before it looked.
    if (!any_.load(std::memory_order_seq_cst)) any_.store(true, std::memory_order_relaxed);
    return true;
  }
  // From the thread's shelf, or from another: one thread may free what another asks for.
  void* take(Shelf& own, Kind kind, uint32_t alignment = 1);
  // False only when there is nothing, or something is being put there. True does not say that
  // there is something.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Calls f(kind, what) for everything, which f then owns.
  template <typename F>
  void drain(F&& f) {
    any_.store(false, std::memory_order_seq_cst);
    for (uint32_t s = 0; s < in_use(); ++s) {
      for (Shelf::Row& row : shelves_[s].rows)
        for (auto& place : row.places) {
          if (place.load(std::memory_order_seq_cst) == 0) continue;
          if (const uintptr_t word = place.exchange(0, std::memory_order_acquire); word != 0)
            f(Shelf::kind_of(word), Shelf::what_of(word));
        }
      shelves_[s].forget();
    }
  }
  // In a child after fork: another thread may have put something there and not said so yet.
  void suspect() { any_.store(true, std::memory_order_relaxed); }
  // Once a second.
  void halve_rooms();
  size_t bytes() const;  // a hint

 private:
  uint32_t in_use() const { return std::min(threads_.load(std::memory_order_relaxed), kShelves); }

  Shelf shelves_[kShelves];
  alignas(kCacheLine) std::atomic<bool> any_{false};
  std::atomic<uint32_t> threads_{0};
};

}  // namespace llamalloc
