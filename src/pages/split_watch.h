// SPDX-License-Identifier: Apache-2.0
// Whether parts of huge pages leave the charge when they are given back. The kernel frees nothing
// of a huge page before it is split into small pages, and declines to split one that another
// process has, too (after a fork), or that is pinned for a device.
//
//   split --> discard the first free part --> has the system counted a split page?
//                     | yes, or the page was small before         | no
//               discard the rest                            leave the page as it is
//
// The system counts for all processes: one that splits pages at the same moment may hide a refusal.
// After several refusals in a row the watch rests, for twice as many rounds each time. Two callers
// at once may lose one refusal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/pages.h"

namespace llamalloc {

class SplitWatch {
 public:
  // Whether the system's counters may be read; if not, a split that the system accepts counts.
  void may_count(bool yes) { may_count_.store(yes, std::memory_order_relaxed); }
  // A round of breaking begins.
  void begin_round() {
    const uint32_t rest = rest_.load(std::memory_order_relaxed);
    if (rest != 0) rest_.store(rest - 1, std::memory_order_relaxed);
  }
  // No page is worth trying in this round.
  bool is_resting() const { return rest_.load(std::memory_order_relaxed) != 0; }

  // Splits the huge page in which the free part lies, and gives that part back. Small pages are
  // asked for there already. False: what is given back of the page would stay charged.
  bool part(PageSource& system, char* free_part, size_t bytes) {
    const bool parted = try_to_part(system, free_part, bytes);
    note(parted);
    return parted;
  }

 private:
  static constexpr uint32_t kPatience = 4;       // refusals in a row
  static constexpr uint32_t kLongestRest = 256;  // rounds

  bool try_to_part(PageSource& system, char* free_part, size_t bytes) {
    const bool counts = may_count_.load(std::memory_order_relaxed);
    const Splits before = counts ? system.splits() : Splits{};
    if (!system.split(free_part) || !system.discard(free_part, bytes)) return false;
    if (!before.known) return true;
    const Splits after = system.splits();
    return after.pages != before.pages || after.mappings == before.mappings;
  }
  void note(bool parted) {
    const uint32_t refusals = parted ? 0 : refusals_.load(std::memory_order_relaxed) + 1;
    refusals_.store(refusals, std::memory_order_relaxed);
    rest_.store(rest_after(refusals), std::memory_order_relaxed);
  }
  static uint32_t rest_after(uint32_t refusals) {
    if (refusals < kPatience) return 0;
    const uint32_t doublings = refusals - kPatience + 1;
    return doublings < 8 ? 1u << doublings : kLongestRest;
  }

  std::atomic<bool> may_count_{true};
  std::atomic<uint32_t> refusals_{0};  // in a row
  std::atomic<uint32_t> rest_{0};      // rounds until the next try
};

}  // namespace llamalloc
