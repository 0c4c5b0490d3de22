// SPDX-License-Identifier: Apache-2.0
// A copy of all data of the statistics document (contracts/control_protocol.md), of fixed size.
//
//   pages       [ row 0 | row 1 | ... ]                    kMostPages: 32 GiB of heap
//   slots       [ of row 0 ... | of row 1 ... | ... ]      one for each slot size of the page
//
// Pages beyond kMostPages or kMostSlots are counted in the figures but have no row. Rows have no
// memory until they are used, and are returned to the system after use.
#pragma once

#include <atomic>
#include <cstdint>

#include "profile/profiler.h"
#include "telemetry/figures.h"
#include "telemetry/text.h"

namespace llamalloc {

// The figures at the moment when most was allocated, as far as somebody looked.
struct PeakFigures {
  bool taken = false;
  Nanos at{};
  uint64_t stats[kStats] = {};
};

// Facts from outside the heap; the texts are not copied.
struct ProcessFacts {
  const char* command = "";
  int pid = 0;
  Nanos started{};
  const char* model = "";
  const char* hugepages = "";
  const char* idle_caches = "";  // whether they are emptied: "on", or "off: REASON"
  const char* learning = "";     // "off", "on: FILE", or "on; nothing is kept: REASON"
  const char* segregation = "";  // what the gate decided, in a sentence
  size_t thread_caches = 0;
  bool sampling = false;
  size_t charge = SIZE_MAX;  // of the control group (os/memory_limits.h); SIZE_MAX: not known
  const PeakFigures* peak = nullptr;  // null: nobody looked
};

struct PageRow {
  Nanos opened{};
  Nanos last_taken{};   // as HugePage::last_taken
  uint32_t number = 0;  // its address / 2 MiB
  uint32_t allocated = 0;
  uint32_t slots_end = 0;  // its slots end there; they start where those of the row before end
  uint16_t used_blocks = 0;
  PageGroup group{};
  bool promoted = false;
  bool broken = false;
};

struct SlotRow {
  uint64_t size_class : 8;  // kSizeClasses: runs
  uint64_t objects : 28;
 uint64_t slots : 28;
};

struct ProcessSnapshot {
  static constexpr uint32_t kMostPages = 16384;
  static constexpr uint32_t kMostSlots = 16 * kMostPages;

  // Does not initialise the rows: the arena's memory is zero.
  ProcessSnapshot() {}
  void start(const ProcessFacts& process, Nanos time);
  void add(const HugePage& page, const PageCounts& counts);
  uint32_t slots_start(uint32_t page) const { return page == 0 ? 0 : pages[page - 1].slots_end; }
  // Page sums against group sums.
  bool is_consistent() const;

  std::atomic<bool> taken{false};
  ProcessSnapshot* next = nullptr;
  ProcessFacts facts;
  Nanos now{};
  Figures figures;
  uint64_t predicted[kLifetimeClasses];
  const TagTable* tag_names = nullptr;
  uint32_t tag_count = 0;
  Profiler::TagSum tags[TagTable::kMost + 1];
  uint32_t page_count = 0;
  uint32_t slot_count = 0;
  size_t pages_left_out = 0;
  Text scratch;  // a buffer for rendering: the calling thread may have little stack

  alignas(kSmallPage) PageRow pages[kMostPages];
  alignas(kSmallPage) SlotRow slots[kMostSlots];
};

}  // namespace llamalloc
