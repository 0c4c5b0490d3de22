// SPDX-License-Identifier: Apache-2.0
#include "heap/shelves.h"

namespace llamalloc {

void* Shelf::take_from(std::atomic<uintptr_t>& place, Kind kind, uint32_t alignment) {
  uintptr_t there = place.load(std::memory_order_relaxed);
  const uintptr_t least = static_cast<uintptr_t>(std::countr_zero(alignment)) << kAlignedShift;
  const uintptr_t low = there & ((1 << kKindBits) - 1);
  if (there == 0 || (low & kKindMask) != kind.word || low < (least | kind.word)) return nullptr;
  // Acquire pairs with put(): what the last owner wrote.
  const bool mine =
      place.compare_exchange_strong(there, 0, std::memory_order_acquire, std::memory_order_relaxed);
  return mine ? what_of(there) : nullptr;
}

// Down to the first row; what is seen on the way says how far down the top may come.
void* Shelf::take(Kind kind, uint32_t alignment) {
  const uint32_t home = home_of(kind.word), before = top_of(home);
  uint32_t top = before;
  void* found = nullptr;
  bool clear = true;  // of what is of that home
  for (uint32_t n = before + 1; found == nullptr && n-- != 0;) {
    Row& row = row_at(home, n);
    for (uint32_t i = kInRow; found == nullptr && i-- != 0;) {
      const uintptr_t word = row.places[i].load(std::memory_order_relaxed);
      if (word == 0 || home_of(word) != home) continue;
      found = take_from(row.places[i], kind, alignment);
      if (found == nullptr) clear = false;
    }
    if (clear) top = n;
  }
  if (top != before) tops[home].store(static_cast<uint8_t>(top), std::memory_order_relaxed);
  if (found != nullptr) count_taken(kind);
  return found;
}

void Shelf::count_taken(Kind kind) {
  const uint8_t places = used.load(std::memory_order_relaxed);
  held.store(static_cast<uint32_t>(less(held.load(std::memory_order_relaxed), kind.bytes())),
             std::memory_order_relaxed);
  if (places != 0) used.store(static_cast<uint8_t>(places - 1), std::memory_order_relaxed);
}

void* Shelf::steal(Kind kind, uint32_t alignment) {
  const uint32_t home = home_of(kind.word);
  void* found = nullptr;
  for (uint32_t n = 0, end = top_of(home) + 1; n < end && found == nullptr; ++n)
    for (auto& place : row_at(home, n).places)
      if (found = take_from(place, kind, alignment); found != nullptr) break;
  return found;
}

[[gnu::cold]] size_t Shelf::count_held(uint32_t* places) const {
  size_t bytes = 0;
  *places = 0;
  for (const Row& row : rows)
    for (const auto& place : row.places)
      if (const uintptr_t word = place.load(std::memory_order_relaxed); word != 0) {
        bytes += kind_of(word).bytes();
        ++*places;
      }
  return bytes;
}

// What others took is not counted. Where they took nothing, it is not looked for each time.
[[gnu::cold]] bool Shelf::count_again() {
  if (const uint8_t left = full.load(std::memory_order_relaxed); left != 0) {
    full.store(static_cast<uint8_t>(left - 1), std::memory_order_relaxed);
    return false;
  }
  uint32_t places;
  const size_t before = held.load(std::memory_order_relaxed), now = count_held(&places);
  if (now >= before) full.store(kRefused, std::memory_order_relaxed);
  held.store(static_cast<uint32_t>(now), std::memory_order_relaxed);
  used.store(static_cast<uint8_t>(places), std::memory_order_relaxed);
  return now < before;
}

bool Shelf::has_room(size_t bytes) {
  const size_t most = room.load(std::memory_order_relaxed);
  const auto fits = [&] {
    return held.load(std::memory_order_relaxed) + bytes <= most &&
           used.load(std::memory_order_relaxed) < kPlaces;
  };
  return fits() || (bytes <= most && count_again() && fits());
}

bool Shelf::put_in(Row& row, uintptr_t word) {
  for (auto& place : row.places) {
    uintptr_t empty = 0;
    // In one order with Shelves::drain.
    if (place.load(std::memory_order_relaxed) == 0 &&
        place.compare_exchange_strong(empty, word, std::memory_order_seq_cst))
      return true;
  }
  return false;
}

bool Shelf::put(Kind kind, const void* what, uintptr_t blocks) {
  if (misses.load(std::memory_order_relaxed) != 0) misses.store(0, std::memory_order_relaxed);
  const size_t bytes = kind.bytes();
  if (!has_room(bytes)) return false;
  const int aligned = blocks == 0 ? 0 : std::min(std::countr_zero(blocks), kAlignedMost);
  const uintptr_t word = word_of(kind, what, aligned);
  const uint32_t home = home_of(word), top = top_of(home);
  uint32_t n = top;
  while (n < kRows && !put_in(row_at(home, n), word)) ++n;
  if (n == kRows) {  // into a hole, which others left at the bottom
    for (n = 0; n < top && !put_in(row_at(home, n), word); ++n) {
    }
    if (n == top) return false;
  }
  if (n > top) tops[home].store(static_cast<uint8_t>(n), std::memory_order_relaxed);
  held.store(held.load(std::memory_order_relaxed) + static_cast<uint32_t>(bytes),
             std::memory_order_relaxed);
  used.store(static_cast<uint8_t>(used.load(std::memory_order_relaxed) + 1),
             std::memory_order_relaxed);
  return true;
}

bool Shelf::holds(int bin, const void* slot) const {
  const uintptr_t word = word_of(Kind::of_slot(bin), slot, 0);
  const uint32_t home = home_of(word);
  bool found = false;
  for (uint32_t n = 0, end = top_of(home) + 1; n < end; ++n)
    for (const auto& place : row_at(home, n).places)
      found |= place.load(std::memory_order_relaxed) == word;
  return found;
}

// Where others free what a thread asks for, and it has put nothing on its own shelf for long: from
// the shelf that had something last, or else from one other. All would be too many.
void* Shelves::take(Shelf& own, Kind kind, uint32_t alignment) {
  void* what = own.take(kind, alignment);
  const uint8_t misses = own.misses.load(std::memory_order_relaxed);
  if (what != nullptr) return what;
  if (misses <= Shelf::kManyMisses) {
    own.misses.store(misses + 1, std::memory_order_relaxed);
    return nullptr;
  }
  const uint8_t other = own.other.load(std::memory_order_relaxed);
  Shelf& victim = shelves_[other % in_use()];
  if (&victim != &own) what = victim.steal(kind, alignment);
  if (what == nullptr) own.other.store(static_cast<uint8_t>(other + 1), std::memory_order_relaxed);
  return what;
}

[[gnu::cold]] void Shelves::halve_rooms() {
  for (uint32_t s = 0; s < in_use(); ++s) {
    const uint32_t room = shelves_[s].room.load(std::memory_order_relaxed);
    if (room != 0) shelves_[s].room.store(room / 2, std::memory_order_relaxed);
  }
}

[[gnu::cold]] size_t Shelves::bytes() const {
  size_t bytes = 0;
  if (!any()) return bytes;
  uint32_t places;
  for (uint32_t s = 0; s < in_use(); ++s) bytes += shelves_[s].count_held(&places);
  return bytes;
}

}  // namespace llamalloc
