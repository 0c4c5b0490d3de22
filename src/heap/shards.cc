// SPDX-License-Identifier: Apache-2.0
// What the heap does with shards (bin_shards.h).
#include <algorithm>

#include "heap/heap.h"

namespace llamalloc {
namespace {

constexpr int kTakenOver = 8;   // spans at once
constexpr int kReturned = 256;  // spans that the worker moves while others wait for the locks
constexpr size_t kFreedAtOnce = 32;
constexpr size_t kMostSpares = size_t{4} << 20;  // bytes, of a bin in a shard

size_t span_bytes(int bin) {
  return shape_of_bin(bin).blocks * kBlockSize;
}

}  // namespace

void Heap::open_shard(int bin, int shard) {
  if (__builtin_expect(shards_.is_open(shard, bin), 1)) return;
  LockGuard guard(bins_[bin].lock);
  shards_.open(shard, bin);
}

[[gnu::noinline]] size_t Heap::take_from_others(int bin_index, void** out, size_t n, int shard) {
  for (int from = 0; from <= BinShards::kShards; ++from) {
    if (from == shard || (from != 0 && !shards_.is_open(from, bin_index))) continue;
    Bin& other = bin_at(bin_index, from);
    if (other.in_depot() != 0) {
      LockGuard guard(other.lock);
      if (const size_t taken = take_from_depot(other, out + n, n); taken != 0) return taken;
    }
    if (!other.may_have_any()) continue;
    if (const size_t taken = take_over(bin_index, from, shard, out, n); taken != 0) return taken;
  }
  return 0;
}

// The bin itself takes over no more than is taken from at once: it keeps no spares.
size_t Heap::take_over(int bin_index, int from, int to, void** out, size_t n) {
  Bin &theirs = bin_at(bin_index, from), &own = bin_at(bin_index, to);
  LockGuard first(from < to ? theirs.lock : own.lock);
  LockGuard second(from < to ? own.lock : theirs.lock);
  theirs.lock.assert_held();
  own.lock.assert_held();
  if (to != 0 && !shards_.is_open(to, bin_index)) return 0;
  list_pending(theirs);
  Span* moved = nullptr;
  for (int i = 0; i < (to == 0 ? 1 : kTakenOver) && !theirs.partial.empty(); ++i) {
    moved = theirs.partial.min();
    move_span(theirs, own, to, moved);
  }
  if (moved == nullptr) return 0;
  list_pending(own);
  const size_t taken = take_listed(own, out + n, n);
  if (to == 0 && moved->is_listed() && moved->free_now() == moved->slots) free_span(own, moved);
  return taken;
}

// One that is wholly free is a spare of a shard, and of the bin itself not for long.
void Heap::move_span(Bin& from, Bin& to, int shard, Span* span) {
  if (span->is_spare()) use_spare(from, span);
  from.unlist(span);
  if (span->shard != 0) from.spans.fetch_sub(1, std::memory_order_relaxed);
  span->set_shard(shard);
  if (shard != 0) to.spans.fetch_add(1, std::memory_order_relaxed);
  to.list(span);
  if (shard != 0 && span->free_now() == span->slots) keep_spare(to, span);
}

// ----- Spares -----

void Heap::earn_spare(Bin& bin, int bin_index) {
  const uint16_t now = bin.may_spare.load(std::memory_order_relaxed);
  if (now * span_bytes(bin_index) < kMostSpares)
    bin.may_spare.store(static_cast<uint16_t>(now + 1), std::memory_order_relaxed);
}

bool Heap::may_keep(const Bin& bin, int bin_index, int shard) const {
  const size_t limit = std::max(BinShards::kLeastSpare, shelf_limit(BinShards::kShards));
  return bin.spares.load(std::memory_order_relaxed) <
             bin.may_spare.load(std::memory_order_relaxed) &&
         shards_.spared(shard) + span_bytes(bin_index) <= limit;
}

void Heap::keep_spare(Bin& bin, Span* span) {
  span->set_listed(Span::Listed::spare);
  bin.spares.store(bin.spares.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  shards_.count_spared(span->shard, span_bytes(span->bin));
  shards_.note_spare();
}

void Heap::use_spare(Bin& bin, Span* span) {
  span->set_listed(Span::Listed::yes);
  bin.spares.store(bin.spares.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  shards_.count_spared(span->shard, size_t{0} - span_bytes(span->bin));
}

[[gnu::cold]] bool Heap::drain_spares() {
  if (!shards_.any_spares()) return false;
  shards_.forget_spares();
  shards_.for_each_open([&](int shard, int b) {
    Bin& bin = shards_.at(shard, b);
    size_t left = bin.spares.load(std::memory_order_relaxed);  // not what comes meanwhile
    while (left != 0) {
      Span* spares[kFreedAtOnce];
      size_t n = 0;
      LockGuard guard(bin.lock);
      bin.partial.for_each([&](Span* span) {
        if (n < kFreedAtOnce && span->is_spare()) spares[n++] = span;
      });
      for (size_t i = 0; i < n; ++i) {
        use_spare(bin, spares[i]);
        free_span(bin, spares[i]);
      }
      if (n == 0) break;
      left -= std::min(left, n);
    }
  });
  return true;
}

// ----- Once a second -----

size_t Heap::taken_of(int bin_index) const {
  size_t taken = 0;
  if (bin_index < kLocalBins)
    for (int shard = 1; shard <= BinShards::kShards; ++shard)
      if (shards_.was_used(shard)) taken += shards_.at(shard, bin_index).taken.load();
  return taken + bins_[bin_index].taken.load();  // last: settle_shard()
}

// What the worker does about a bin of a shard, a few spans at a time. False: there are more.
bool Heap::settle_shard(int bin_index, int shard, bool idle) {
  Bin &main = bins_[bin_index], &bin = shards_.at(shard, bin_index);
  LockGuard first(main.lock);
  LockGuard second(bin.lock);
  // First added: who sums up meanwhile counts too much rather than too little.
  const size_t taken = bin.taken.load(std::memory_order_relaxed);
  main.taken.fetch_add(taken);
  bin.taken.fetch_sub(taken);
  if (!idle) return true;
  list_pending(bin);
  for (int i = 0; i < kReturned && !bin.partial.empty(); ++i) {
    Span* span = bin.partial.min();
    move_span(bin, main, 0, span);
    if (span->free_now() == span->slots) free_span(main, span);
  }
  if (bin.may_have_any()) return false;
  if (bin.spans.load(std::memory_order_relaxed) == 0 && bin.in_depot() == 0) {
    keep_room(bin, 0);
    bin.may_spare.store(0, std::memory_order_relaxed);
    shards_.close(shard, bin_index);
  }
  return true;
}

// What a process publishes of its bins is that of the bins alone (published.cc). One that is idle
// and has nothing but full spans is let be.
[[gnu::cold]] void Heap::settle_shards() {
  shards_.for_each_open([&](int shard, int b) {
    Bin& bin = shards_.at(shard, b);
    const uint16_t may_spare = bin.may_spare.load(std::memory_order_relaxed);
    if (may_spare != 0)
      bin.may_spare.store(static_cast<uint16_t>(may_spare / 2), std::memory_order_relaxed);
    const bool idle = !bin.used.exchange(false, std::memory_order_relaxed);
    if (idle && !bin.may_have_any() && bin.spans.load(std::memory_order_relaxed) != 0 &&
        bin.taken.load(std::memory_order_relaxed) == 0)
      return;
    while (!settle_shard(b, shard, idle)) {
    }
  });
  shards_.look_for_any();
}

}  // namespace llamalloc
