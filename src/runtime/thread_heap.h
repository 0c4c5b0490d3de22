// SPDX-License-Identifier: Apache-2.0
// What a thread holds of the heap: for each local bin one word of free slots to hand out, and a
// small table of words into which freed slots are gathered.
//
//   bins[b]   { mask, base, word }    malloc: lowest set bit of mask -> base + slot * size
//   held[h]   { word, mask, span }    free: set the bit of the slot; h = hash of the word's address
//
// A freed slot goes to the bin's word if it belongs to it, else to its held word, else (the slow
// path) a held word is returned to the heap to make room: one lock for up to 64 objects, whoever
// allocated them, and the dead object is not touched. When a bin runs dry it takes a held word of
// its own before it asks the heap. So a steady thread works without locks and without atomics.
//
// Invariants: a bit is set in at most one of bins, held and the heap's words; held_bytes is the sum
// of word_bytes over the held words, at most kHeldLimit.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "heap/heap.h"

namespace llamalloc {

// Word and base name the word together. A bin whose mask is empty holds nothing of the span, so the
// span may go, and its record may come to describe another place: then the base differs.
struct LocalBin {
  uint64_t mask;
  char* base;      // of the span
  uint64_t* word;  // null: no word
  uint32_t size;   // bytes of a slot
  uint16_t first;  // slot of bit 0
  uint16_t held;   // 1 + index of the first held word of this bin; 0: none

  bool has(const Span* span, const uint64_t* its_word) const {
    return word == its_word && base == span->base;
  }
  void* take() {
    const uint64_t slot = first + static_cast<uint64_t>(std::countr_zero(mask));
    mask &= mask - 1;
    return base + slot * size;
  }
  // Starts on a word that the thread has claimed.
  void open(Span* span, uint64_t* its_word, uint64_t its_mask) {
    mask = its_mask;
    base = span->base;
    word = its_word;
    first = static_cast<uint16_t>((its_word - span->words) * 64);
  }
};
static_assert(sizeof(LocalBin) == 32);

struct HeldWord {
  uint64_t* word;
  uint64_t mask;
  Span* span;
};

inline constexpr int kHeldShift = 8;
inline constexpr int kHeldWords = 1 << kHeldShift;
inline constexpr size_t kHeldLimit = size_t{1} << 20;

// What others subtract from a thread's countdown to call it in; the thread adds it back. The
// thread's own plain update may swallow it: then it is called in the next time.
inline constexpr int64_t kCallIn = int64_t{1} << 60;

struct alignas(kCacheLine) ThreadHeap {
  // Bytes until the thread has to look up from its work (tick): sampling, re-evaluation,
  // housekeeping; negative: now.
  std::atomic<int64_t> countdown;
  bool predicting;  // allocations go through the prediction cache
  bool sampling;    // bytes_to_sample counts
  bool in_use;
  std::atomic<bool> housekeeping_due;
  uint32_t held_bytes;
  uint64_t rng;
  int64_t countdown_start;   // value that the countdown was last set to
  int64_t bytes_to_sample;   // at the last setting
  int64_t bytes_to_recheck;  // at the last setting
  uintptr_t stack_high;
  uint32_t thread_id;
  uint32_t busy;     // inside a slow path: what we call there must not come back to it
  ThreadHeap* next;  // all heaps ever made, under the registry's lock
  LocalBin bins[kLocalBins];
  HeldWord held[kHeldWords];
  uint16_t held_next[kHeldWords];  // 1 + index; 0: end

  static uint32_t held_index(const uint64_t* word) {
    return static_cast<uint32_t>(
        ((reinterpret_cast<uintptr_t>(word) >> 3) * 0x9E3779B97F4A7C15ull) >> (64 - kHeldShift));
  }

  void initialise();
  // Gets a word with free slots for the bin; false: no memory.
  bool refill(Heap& heap, int bin);
  // Gets a word that the thread holds already, without a lock; false: there is none.
  bool adopt_held(int bin);
  // Takes in a freed slot whose word is neither the bin's nor held, if that needs no lock: the bin
  // is empty, or the word's place among the held ones is.
  bool keep(Span* span, uint64_t* word, uint64_t bit);
  // The same whatever it needs. Returns bits that were free already (a double free).
  uint64_t take_in(Heap& heap, Span* span, uint64_t* word, uint64_t bit);
  // Returns everything to the heap.
  void flush(Heap& heap);
  bool is_consistent() const;

 private:
  uint64_t evict(Heap& heap, uint32_t index);
};

}  // namespace llamalloc
