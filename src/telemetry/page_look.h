// SPDX-License-Identifier: Apache-2.0
// One huge page seen closely: its spans, and which call sites its objects come from.
//
//   heap      --page--> spans                        copied under the lock of the page's set
//   profiler  --live samples--> (stack, kind) ...    kind: a bin (group, slot size, sampled), or a
//   run site      its part of the samples of a kind, anywhere in the heap, x the bytes of that kind
//             here; summed over the kinds, the most bytes first
//
// Only samples have a known call site, and they have spans of their own. So most pages hold few of
// them or none, and what is said of a page's sites is an estimate from samples of the same kinds;
// `here` counts those that are in the page itself. A sample tells of two kinds: of its own bin,
// whose slots serve several sizes, and of the bin that serves objects of its size without sampling.
#pragma once

#include "heap/heap.h"
#include "profile/profiler.h"
#include "profile/scratch_pages.h"
#include "telemetry/text.h"

namespace llamalloc {

struct PageLook {
  static constexpr uint32_t kMostSpans = kBlocksPerHugePage / kLeastSpanBlocks;
  static constexpr uint32_t kMostSites = 12;
  static constexpr uint32_t kMostFrames = 6;
  static constexpr size_t kLongestName = 160;
  static constexpr int kKinds = kBins + 1;  // the last one: runs

  struct SpanRow {
    uint32_t size;  // of a slot, or of the run
    uint16_t first_block;
    uint16_t blocks;
    uint16_t objects;  // what threads cache included
    uint16_t slots;
    bool run;
    bool sampled;
  };
  struct Site {
    uint32_t stack;
    uint32_t here;  // samples in the page
    Nanos oldest;   // of those
    double bytes;   // of the page's objects, estimated
    uint32_t frames;
    char names[kMostFrames][kLongestName];
  };

  // Copies the page; false: it is not in use.
  bool copy_page(Heap& heap, uint64_t page_number);
  // Estimates its sites, without names. False: no memory.
  bool find_sites(const Heap& heap, Profiler& profiler, PageSource& system);
  void take_names(const NamedFrames& names, const StackTable& stacks);
  // Sites together have no more than the page.
  bool is_consistent() const;

  uint64_t number = 0;
  PageGroup group{};
  size_t allocated = 0;
  size_t memory = 0;     // that is behind the page
  uint64_t samples = 0;  // that the estimate is made of
  uint64_t here = 0;     // of them in the page
  double known = 0;      // bytes of the kinds that have samples
  uint32_t span_count = 0;
  uint32_t site_count = 0;
  SpanRow spans[kMostSpans];
  Site sites[kMostSites];

 private:
  size_t bytes_of_[kKinds] = {};  // in the page
};

// The document of contracts/heap_map.md, piece by piece.
class PageLookJson {
 public:
  PageLookJson() = default;
  explicit PageLookJson(const PageLook& look) : look_(&look) {}
  // Adds the next piece to an empty text. False: it was the last.
  bool add_next(Text* out);

 private:
  void add_head(Text* out) const;
  void add_site(const PageLook::Site& site, Text* out) const;

  const PageLook* look_ = nullptr;
  uint32_t next_ = 0;
  bool in_sites_ = false;
};

}  // namespace llamalloc
