// SPDX-License-Identifier: Apache-2.0
#include "runtime/thread_heap.h"

#include "base/check.h"

namespace llamalloc {
namespace {

// Bytes of the slots that one word stands for.
uint32_t word_bytes(const Span* span) {
  const uint32_t slots = span->slots < 64 ? span->slots : 64;
  return slots * span->slot_size;
}

}  // namespace

void ThreadHeap::initialise() {
  for (int b = 0; b < kLocalBins; ++b) bins[b] = {};
  for (int b = 0; b < kLocalBins; ++b) bins[b].size = kSizeClassRows[b % kSizeClasses].size;
  for (HeldWord& h : held) h = {};
  held_bytes = 0;
}

bool ThreadHeap::refill(Heap& heap, int bin) {
  LocalBin& local = bins[bin];
  DCHECK(local.mask == 0);
  if (adopt_held(bin)) return true;
  const Claim claim = heap.claim(bin, kSizeClassRows[bin % kSizeClasses].claim);
  if (claim.mask == 0) return false;
  local.open(claim.span, claim.word, claim.mask);
  return true;
}

bool ThreadHeap::adopt_held(int bin) {
  LocalBin& local = bins[bin];
  if (local.held == 0) return false;
  const uint32_t index = local.held - 1u;
  HeldWord& h = held[index];
  local.held = held_next[index];
  local.open(h.span, h.word, h.mask);
  held_bytes -= word_bytes(h.span);
  h = {};
  return true;
}

bool ThreadHeap::keep(Span* span, uint64_t* word, uint64_t bit) {
  LocalBin& local = bins[span->local_bin];
  if (local.mask == 0) {  // the bin's word is used up: go on with this one, still warm
    local.open(span, word, bit);
    return true;
  }
  const uint32_t index = held_index(word);
  const uint32_t bytes = held_bytes + word_bytes(span);
  if (held[index].word != nullptr || bytes > kHeldLimit) return false;
  held_bytes = bytes;
  held[index] = {word, bit, span};
  held_next[index] = local.held;
  local.held = static_cast<uint16_t>(index + 1);
  return true;
}

uint64_t ThreadHeap::take_in(Heap& heap, Span* span, uint64_t* word, uint64_t bit) {
  uint64_t twice = 0;
  const uint32_t index = held_index(word);
  if (held[index].word) twice = evict(heap, index);
  if (keep(span, word, bit)) return twice;
  return twice | heap.give_back(span, word, bit);  // as much is held as may be
}

uint64_t ThreadHeap::evict(Heap& heap, uint32_t index) {
  HeldWord& h = held[index];
  uint16_t* link = &bins[h.span->local_bin].held;
  while (*link != index + 1) link = &held_next[*link - 1];
  *link = held_next[index];
  held_bytes -= word_bytes(h.span);
  const HeldWord gone = h;
  h = {};
  return heap.give_back(gone.span, gone.word, gone.mask);
}

void ThreadHeap::flush(Heap& heap) {
  for (uint32_t i = 0; i < kHeldWords; ++i)
    if (held[i].word) evict(heap, i);
  for (LocalBin& local : bins) {
    if (local.mask != 0) heap.give_back(heap.find(local.base), local.word, local.mask);
    local.mask = 0;
    local.word = nullptr;
  }
}

bool ThreadHeap::is_consistent() const {
  uint32_t bytes = 0;
  for (const HeldWord& h : held)
    if (h.word) bytes += word_bytes(h.span);
  for (const LocalBin& local : bins)
    if (local.mask != 0 && local.word == nullptr) return false;
  return bytes == held_bytes && bytes <= kHeldLimit;
}

}  // namespace llamalloc
