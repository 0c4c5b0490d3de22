// SPDX-License-Identifier: Apache-2.0
// Slabs on huge pages without lifetimes, similar to the back end of tcmalloc. It has the product's
// size classes and span lengths, one kind of huge page, and no thread caches. `Spans` chooses the
// span that a slot comes from, `Pages` the huge page that a new span or run comes from.
#pragma once

#include <deque>

#include "sim/fullest_pages.h"
#include "sim/paged_policy.h"
#include "sim/partial_spans.h"

namespace llamalloc::sim {

template <typename Spans, typename Pages>
class SlabPolicy final : public PagedPolicy {
 public:
  uint64_t allocate(const Request& request) override;
  void free(uint64_t address, uint64_t bytes, uint32_t thread, Nanos now) override;
  uint64_t resize(uint64_t address, uint64_t bytes, const Request& request) override;
  void advance(Nanos now) override {
    pool_.collapse_first_pages();
    pool_.release(now - kReleaseDelay, 0);
  }
  Losses losses() override;

 private:
  uint64_t allocate_slot(int size_class);
  uint64_t allocate_run(uint64_t bytes, uint64_t alignment);
  SlabSpan* new_span(int size_class);
  void free_slot(SlabSpan* span, uint64_t address, Nanos now);
  PageSet::Place take_blocks(Blocks blocks, uint32_t alignment);
  void give_blocks(HugePage* page, uint32_t first, Blocks blocks, Nanos now);
  void set_owner(uint64_t offset, uint32_t blocks, SlabSpan* span, HugePage* page);

  struct Owner {
    SlabSpan* span = nullptr;
    HugePage* page = nullptr;
  };
  std::vector<Owner> owners_;  // by block
  std::deque<SlabSpan> records_;
  std::vector<SlabSpan*> free_records_;
  Spans partial_[kSizeClasses];
  Pages set_;
  uint64_t free_slots_ = 0;  // bytes, the rest behind the last slot included
};

using FullestSlabs = SlabPolicy<FullestSpans, FullestPages>;
using LowestSlabs = SlabPolicy<LowestSpans, PageSet>;

}  // namespace llamalloc::sim
