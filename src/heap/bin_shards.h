// SPDX-License-Identifier: Apache-2.0
// Where threads wait for each other's locks, those of each processor share bins of their own: its
// shard. (There are 16; with more processors some share one.) A span belongs to the shard that
// opened it, and what is freed in it returns there. Who waits for nobody uses the bins themselves,
// so then this costs nothing.
//
//   bin b       [ lock, spans ]  <--holes first--  shard 1 [ lock, spans ]  shard 2  ...
//
// A shard adds little to what is held:
//   - It opens a span only where the bin itself has none with free slots: it takes those over, the
//     lowest first. And no page is taken from the system while another shard has such a span to
//     spare.
//   - A span of it that becomes free stays for a while (a spare), or the threads would wait for the
//     locks of pages instead. It goes with each step of the worker, and before a page is taken from
//     the system.
//   - Of a shard that nobody used for a second the worker gives the spans to the bin.
//
// A bin of a shard is open from its first use until it has no span any more. It opens under the
// lock of the bin and closes under both locks. So who holds the locks of all bins and of all open
// shards holds all that matter (a fork). Spans move between two bins under both locks, taken in
// order of address: the bin first. (Without a worker none closes.)
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "heap/bin.h"

namespace llamalloc {

class BinShards {
 public:
  static constexpr int kShards = 16;  // numbers 1 to 16; 0 is the bin itself
  // Bytes of spares that a shard may hold; in a large heap more, its part of what shelves may.
  static constexpr size_t kLeastSpare = size_t{4} << 20;

  static int shard_of(uint32_t processor) { return 1 + static_cast<int>(processor % kShards); }
  Bin& at(int shard, int bin) { return bins_[shard - 1][bin]; }
  const Bin& at(int shard, int bin) const { return bins_[shard - 1][bin]; }

  // A hint: whether any is open.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  bool was_used(int shard) const { return ever_[shard - 1].load(std::memory_order_relaxed); }
  // Stable for who holds the lock of the bin; for who holds that of the shard, if true.
  bool is_open(int shard, int bin) const {
    return (word_of(shard, bin).load(std::memory_order_relaxed) & bit_of(bin)) != 0;
  }
  // The caller holds the lock of the bin.
  void open(int shard, int bin) {
    ever_[shard - 1].store(true, std::memory_order_relaxed);
    word_of(shard, bin).fetch_or(bit_of(bin));
    any_.store(true);  // afterwards: look_for_any()
  }
  // The caller holds both locks.
  void close(int shard, int bin) {
    word_of(shard, bin).fetch_and(~bit_of(bin), std::memory_order_relaxed);
  }
  // f(shard, bin) for each that is open, by rising address of its lock.
  template <typename F>
  void for_each_open(F&& f) const {
    for (int shard = 1; shard <= kShards; ++shard) {
      if (!was_used(shard)) continue;
      for (int w = 0; w < kWords; ++w)
        for (uint64_t left = open_[shard - 1][w].load(std::memory_order_relaxed); left != 0;
             left &= left - 1)
          f(shard, w * 64 + std::countr_zero(left));
    }
  }
  // Who opens one that this misses says so afterwards.
  void look_for_any() {
    any_.exchange(false);
    for_each_open([&](int, int) { any_.store(true); });
  }
  // In a child after fork: also those that somebody looked at who found them closed. What another
  // thread was about to say of any is not known.
  void reset_locks() {
    for (int shard = 1; shard <= kShards; ++shard) {
      if (!was_used(shard)) continue;
      for (Bin& bin : bins_[shard - 1])
        if (bin.lock.is_held()) bin.lock.reset();
    }
    any_.store(true);
    note_spare();
  }

  // ----- Spares, in bytes -----
  size_t spared(int shard) const {
    return spared_[shard - 1].bytes.load(std::memory_order_relaxed);
  }
  size_t spared() const {
    size_t bytes = 0;
    for (int shard = 1; any() && shard <= kShards; ++shard) bytes += spared(shard);
    return bytes;
  }
  void count_spared(int shard, size_t change) {  // modulo 2^64
    spared_[shard - 1].bytes.fetch_add(change, std::memory_order_relaxed);
  }
  void note_spare() {
    if (!any_spares_.load(std::memory_order_relaxed))
      any_spares_.store(true, std::memory_order_relaxed);
  }
  // A hint. forget: until the next one is kept.
  bool any_spares() const { return any_spares_.load(std::memory_order_relaxed); }
  void forget_spares() { any_spares_.exchange(false); }

 private:
  static constexpr int kWords = (kLocalBins + 63) / 64;
  struct alignas(kCacheLine) Spared {
    std::atomic<size_t> bytes{0};
  };

  static uint64_t bit_of(int bin) { return uint64_t{1} << (bin % 64); }
  std::atomic<uint64_t>& word_of(int shard, int bin) { return open_[shard - 1][bin / 64]; }
  const std::atomic<uint64_t>& word_of(int shard, int bin) const {
    return open_[shard - 1][bin / 64];
  }

  Bin bins_[kShards][kLocalBins];
  std::atomic<uint64_t> open_[kShards][kWords]{};
  std::atomic<bool> ever_[kShards]{};
  std::atomic<bool> any_{false}, any_spares_{false};
  Spared spared_[kShards];
};

}  // namespace llamalloc
