// SPDX-License-Identifier: Apache-2.0
// The product in a simulation: its Heap, its page groups and the times at which its background
// worker acts (runtime/background.cc), over SimPages. What threads hold are its magazines.
#pragma once

#include <memory>
#include <vector>

#include "heap/heap.h"
#include "heap/magazines.h"
#include "os/arena.h"
#include "sim/policy.h"
#include "sim/sim_pages.h"

namespace llamalloc::sim {

class ProductPolicy final : public Policy {
 public:
  // Null: no address space.
  static std::unique_ptr<ProductPolicy> make();

  uint64_t allocate(const Request& request) override;
  void free(uint64_t address, uint64_t bytes, uint32_t thread, Nanos now) override;
  uint64_t resize(uint64_t address, uint64_t bytes, const Request& request) override;
  void end_thread(uint32_t thread) override;
  void advance(Nanos now) override;
  Losses losses() override;
  bool is_consistent() override { return heap_.is_consistent() && pages_.ledger.is_consistent(); }
  PageLedger& ledger() override { return pages_.ledger; }
  const DirectSpace& direct() const override { return pages_.direct; }

  uint64_t promotions() const { return promotions_; }

 private:
  static constexpr Nanos kHousekeeping = Nanos::seconds(1);
  static constexpr Nanos kBreakDelay = Nanos{2 * kReleaseDelay.n};

  ProductPolicy() = default;
  struct Thread {
    Magazines magazines;
    bool called_in;  // gives everything back with its next allocation
    Thread* next;    // among those that ended
  };
  Thread& thread_of(uint32_t number);
  char* take_slot(uint32_t thread, int bin);
  char* place(const Request& request);
  uint64_t move(uint64_t address, uint64_t bytes, uint64_t have, const Request& request);
  Span* place_large(const Request& request, uint64_t alignment);
  static uint64_t taken_for(const Span& span) {
    return span.kind == SpanKind::direct ? DirectSpace::backed(span.bytes) : span.object_size();
  }

  SimPages pages_;
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  MetadataArena arena_{pages_};
  Heap heap_{pages_, arena_, *tables_};
  std::vector<Thread*> threads_;  // by number, in the arena; null: not begun, or ended
  Thread* ended_ = nullptr;
  size_t running_ = 0;
  Nanos last_house_{};
  uint64_t rounding_ = 0;
  uint64_t promotions_ = 0;
};

}  // namespace llamalloc::sim
