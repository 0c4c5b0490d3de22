// SPDX-License-Identifier: Apache-2.0
#include "telemetry/snapshot.h"

namespace llamalloc {

void ProcessSnapshot::start(const ProcessFacts& process, Nanos time) {
  facts = process;
  now = time;
  page_count = slot_count = tag_count = 0;
  pages_left_out = 0;
  for (uint64_t& contexts : predicted) contexts = 0;
  for (Profiler::TagSum& sum : tags) sum = {};
}

void ProcessSnapshot::add(const HugePage& page, const PageCounts& counts) {
  if (page_count == kMostPages || slot_count + kSizeClasses + 1 > kMostSlots) {
    ++pages_left_out;
    return;
  }
  for (int c = 0; c <= kSizeClasses; ++c) {
    const PageCounts::Slots& of = counts.of[c];
    if (of.slots != 0) slots[slot_count++] = {static_cast<uint64_t>(c), of.objects, of.slots};
  }
  pages[page_count++] = {.opened = page.opened,
                         .last_taken = {page.last_taken.load(std::memory_order_relaxed)},
                         .number = static_cast<uint32_t>(page.number()),
                         .allocated = static_cast<uint32_t>(counts.allocated),
                         .slots_end = slot_count,
                         .used_blocks = page.used_blocks,
                         .group = page.group.load(std::memory_order_relaxed),
                         .promoted = page.promoted,
                         .broken = page.broken};
}

bool ProcessSnapshot::is_consistent() const {
  size_t allocated[kPageGroups] = {}, count[kPageGroups] = {}, all = 0;
  for (uint32_t p = 0; p < page_count; ++p) {
    allocated[static_cast<int>(pages[p].group)] += pages[p].allocated;
    ++count[static_cast<int>(pages[p].group)];
  }
  bool good = true;
  for (int g = 0; g < kPageGroups; ++g) {
    const GroupCounts& group = figures.groups[g];
    good &= group.allocated + group.free_slots + group.free_blocks == group.pages * kHugePageSize;
    good &= pages_left_out != 0 || (group.allocated == allocated[g] && group.pages == count[g]);
    all += group.allocated;
  }
  return good && all == figures.allocated &&
         all + figures.direct_bytes == figures.stat(Stat::allocated);
}

}  // namespace llamalloc
