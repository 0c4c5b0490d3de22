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
// After several refusals in a row the watch rests (back_off.h).
#pragma once

#include <atomic>
#include <cstddef>

#include "os/pages.h"
#include "pages/back_off.h"

namespace llamalloc {

class SplitWatch {
 public:
  // Whether the system's counters may be read; if not, a split that the system accepts counts.
  void may_count(bool yes) { may_count_.store(yes, std::memory_order_relaxed); }
  // A round of breaking begins.
  void begin_round() { pause_.begin_round(); }
  // No page is worth trying in this round.
  bool is_resting() const { return pause_.is_resting(); }

  // Splits the huge page in which the free part lies, and gives that part back. Small pages are
  // asked for there already. False: what is given back of the page would stay charged.
  bool part(PageSource& system, char* free_part, size_t bytes) {
    const bool parted = try_to_part(system, free_part, bytes);
    pause_.note(!parted);
    return parted;
  }

 private:
  bool try_to_part(PageSource& system, char* free_part, size_t bytes) {
    const bool counts = may_count_.load(std::memory_order_relaxed);
    const Splits before = counts ? system.splits() : Splits{};
    if (!system.split(free_part) || !system.discard(free_part, bytes)) return false;
    if (!before.known) return true;
    const Splits after = system.splits();
    return after.pages != before.pages || after.mappings == before.mappings;
  }

  std::atomic<bool> may_count_{true};
  BackOff pause_;
};

}  // namespace llamalloc
