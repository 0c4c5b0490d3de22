// SPDX-License-Identifier: Apache-2.0
// What threads share of one bin = (page group, size class, sampled or not): its spans with free
// slots, and the slots that one thread left for another.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "heap/span.h"
#include "os/lock.h"
#include "pages/address_heap.h"

namespace llamalloc {

// Free slots that one thread left and another may take, half a magazine at a time and without
// access to their spans. Where one thread frees what another allocates, slots go this way while
// there is room and the lock is free. They count as allocated. The worker returns them to their
// spans once a second.
struct Depot {
  void** slots = nullptr;  // null: not used yet
  uint32_t room = 0;       // bytes, of all that depots may hold
};
// Room is handed out to depots in steps, so that the sum over all is seldom written.
inline constexpr uint32_t kDepotStep = 4096;
inline constexpr uint32_t kDepotSlots = 2048;
inline constexpr size_t kDepotBytes = size_t{128} << 10;  // a bin

struct alignas(2 * kCacheLine) Bin {
  Lock lock{LockRank::bin};
  AddressHeap<Span> partial GUARDED_BY(lock);  // spans with free slots
  Depot depot GUARDED_BY(lock);
  // Written under the lock, read without: slots in the depot, spans in `partial`.
  std::atomic<uint32_t> deposited{0}, listed{0};
  // Of the bin itself those of its shards, too.
  std::atomic<size_t> spans{0};
  // Of a shard (bin_shards.h), written under the lock: of those in `partial`, spans that are wholly
  // free and were kept, how many may be, and whether a slot was taken in this second.
  std::atomic<uint32_t> spares{0};
  std::atomic<uint16_t> may_spare{0};
  std::atomic<bool> used{false};
  // In a line of their own, since who gives slots back needs no lock: slots that no span has free,
  // modulo 2^64, since slots of one shard may be given back to another; spans that have free slots
  // again and wait to be put into `partial`, linked through links.next.
  alignas(kCacheLine) std::atomic<size_t> taken{0};
  std::atomic<Span*> pending{nullptr};
  // Those that were taken out of `pending` and are not listed yet; written under the lock.
  std::atomic<Span*> backlog{nullptr};

  uint32_t in_depot() const { return deposited.load(std::memory_order_relaxed); }
  bool is_newest(const void* slot) const REQUIRES(lock) {
    return in_depot() != 0 && depot.slots[in_depot() - 1] == slot;
  }
  // Whether spans may have free slots.
  bool may_have_any() const { return listed.load(std::memory_order_relaxed) != 0 || has_waiting(); }
  // `pending` in one order with Span::add_free.
  bool has_waiting() const {
    return pending.load() != nullptr || backlog.load(std::memory_order_relaxed) != nullptr;
  }
  void list(Span* span) REQUIRES(lock) {
    partial.insert(span);
    span->set_listed(Span::Listed::yes);
    listed.store(listed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void unlist(Span* span) REQUIRES(lock) {
    partial.remove(span);
    span->set_listed(Span::Listed::no);
    listed.store(listed.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
};
#ifndef LLAMALLOC_CHECK_BUILD
static_assert(sizeof(Bin) == size_t{2} * kCacheLine);
#endif

}  // namespace llamalloc
