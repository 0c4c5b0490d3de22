// SPDX-License-Identifier: Apache-2.0
#include "heap/shelves.h"

namespace llamalloc {

void* Shelf::take_from(uint32_t place, Kind kind, uint32_t alignment) {
  uintptr_t there = places[place].load(std::memory_order_relaxed);
  const uintptr_t least = static_cast<uintptr_t>(std::countr_zero(alignment)) << kAlignedShift;
  const uintptr_t low = there & ((1 << kKindBits) - 1);
  if (there == 0 || (low & kKindMask) != kind.word || low < (least | kind.word)) return nullptr;
  // Acquire pairs with put(): what the last owner wrote.
  const bool mine = places[place].compare_exchange_strong(there, 0, std::memory_order_acquire,
                                                          std::memory_order_relaxed);
  return mine ? what_of(there) : nullptr;
}

void* Shelf::take(Kind kind, uint32_t alignment) {
  const uint32_t before = end(), last = near(before);
  uint32_t used = before;
  void* found = nullptr;
  for (uint32_t i = before; found == nullptr && i-- != last;) {
    found = take_from(i, kind, alignment);
    if (used == i + 1 && (found != nullptr || places[i].load(std::memory_order_relaxed) == 0))
      used = i;
  }
  if (used != before) top.store(static_cast<uint16_t>(used), std::memory_order_relaxed);
  if (found != nullptr)
    held.store(static_cast<uint32_t>(less(held.load(std::memory_order_relaxed), kind.bytes())),
               std::memory_order_relaxed);
  return found;
}

void* Shelf::steal(Kind kind, uint32_t alignment) {
  void* found = nullptr;
  for (uint32_t i = 0, n = end(); i < n && found == nullptr; ++i)
    found = take_from(i, kind, alignment);
  return found;
}

size_t Shelf::count_held() const {
  size_t bytes = 0;
  for (uint32_t i = 0, n = end(); i < n; ++i)
    if (const uintptr_t word = places[i].load(std::memory_order_relaxed); word != 0)
      bytes += kind_of(word).bytes();
  return bytes;
}

bool Shelf::put_at(uint32_t place, uintptr_t word) {
  uintptr_t empty = 0;
  // In one order with Shelves::drain.
  return places[place].load(std::memory_order_relaxed) == 0 &&
         places[place].compare_exchange_strong(empty, word, std::memory_order_seq_cst);
}

bool Shelf::put(Kind kind, const void* what, uintptr_t blocks) {
  if (misses.load(std::memory_order_relaxed) != 0) misses.store(0, std::memory_order_relaxed);
  const size_t most = room.load(std::memory_order_relaxed);
  if (kind.bytes() > most) return false;
  size_t with = held.load(std::memory_order_relaxed) + kind.bytes();
  if (with > most && (with = count_held() + kind.bytes()) > most) return false;
  const int aligned = blocks == 0 ? 0 : std::min(std::countr_zero(blocks), kAlignedMost);
  const uintptr_t word = word_of(kind, what, aligned);
  uint32_t at = top.load(std::memory_order_relaxed);
  while (at < kPlaces && !put_at(at, word)) ++at;
  if (at < kPlaces) {
    top.store(static_cast<uint16_t>(at + 1), std::memory_order_relaxed);
  } else {  // into a hole, which others left at the bottom
    for (at = 0; at < kNear && !put_at(at, word); ++at) {
    }
    if (at == kNear) return false;
  }
  held.store(static_cast<uint32_t>(with), std::memory_order_relaxed);
  return true;
}

bool Shelf::holds(int bin, const void* slot) const {
  const uintptr_t word = word_of(Kind::of_slot(bin), slot, 0);
  bool found = false;
  for (uint32_t n = end(), i = near(n); i < n; ++i)
    found |= places[i].load(std::memory_order_relaxed) == word;
  return found;
}

// Where others free what a thread asks for, and it has put nothing on its own shelf for long: from
// the shelf that had something last, or else from one other. All would be too many.
void* Shelves::take(Shelf& own, Kind kind, uint32_t alignment) {
  void* what = own.take(kind, alignment);
  const uint8_t misses = own.misses.load(std::memory_order_relaxed);
  if (what != nullptr) return what;
  if (misses <= Shelf::kNear) {
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
  for (uint32_t s = 0; s < in_use(); ++s) bytes += shelves_[s].count_held();
  return bytes;
}

}  // namespace llamalloc
