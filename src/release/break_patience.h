// SPDX-License-Identifier: Apache-2.0
// How much longer than at rest pages are left that could be broken but are not sparse.
//
// A sparse page frees much when it is broken, for what splitting and mending it costs. A fuller one
// frees less for the same price, and more of what the process uses loses its huge page. So
//
// - what is lost grows with the work of the process: it is left as many times longer as the process
//   uses more than kRest of a processor;
// - a page that is mended should not have been broken. It is a debt of the processor time that the
//   split, the faults on its small pages and mending took; kShareOfWork of what the process uses,
//   and kShareOfTime, pay it off. From more than kCredit on, and until all is paid, only sparse
//   pages are broken. So a load that swings all the time keeps its pages after the first few times.
//   A process at rest may owe kCreditAtRest, as for empty pages (hold_time.h). Else its memory
//   would wait for minutes. Waves with rests between them cost that, one wave, and what time pays;
// - a heap of few pages loses little with them: the TLB holds it in small ones, too. It waits as
//   much less as it is smaller than kLarge. What such a process keeps counts where many of them
//   are idle, like the backends of a database.
//
// Pure: the caller reads the clocks.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/units.h"

namespace llamalloc {

class BreakPatience {
 public:
  static constexpr double kRest = 1.0 / 50;
  static constexpr Nanos kLeast = Nanos::seconds(2);
  static constexpr size_t kLarge = 24;  // pages, as for the first ones (page_pool.h)
  static constexpr size_t kSmall = 4;   // fewer wait no less: as long as sparse ones
  static constexpr double kFade = 4;    // seconds over which the work is a mean
  static constexpr double kShareOfWork = 1.0 / 40;
  static constexpr double kShareOfTime = 1.0 / 1000;
  static constexpr double kPrice = 0.005;     // seconds, of a page; measured on a virtual machine
  static constexpr double kCredit = 0.4;      // seconds
  static constexpr double kCreditAtRest = 1;  // seconds
  static constexpr double kMostDebt = 60;     // so that it is paid off some time
  static constexpr double kWorks = 1.0 / 5;   // processors: what was broken at rest is mended
  static constexpr Nanos kForEver = Nanos::seconds(1'000'000);  // times 35 it is no overflow

  // used: processor time of the process since it began; mended: pages since the last step. A clock
  // that stands or jumps back tells nothing.
  void step(Nanos now, Nanos used, size_t mended) {
    const double seconds = static_cast<double>(now.n - last_.n) * 1e-9;
    const double worked = static_cast<double>(used.n - used_.n) * 1e-9;
    const bool first = last_.n == 0;
    if (!first && seconds <= 0) return;
    last_ = now, used_ = used;
    if (first || worked < 0) return;
    const double kept = kFade / (kFade + seconds);
    processors_ = processors_ * kept + worked / seconds * (1 - kept);
    debt_ += static_cast<double>(mended) * kPrice;
    debt_ -= worked * kShareOfWork + seconds * kShareOfTime;
    debt_ = std::clamp(debt_, 0.0, kMostDebt);
    in_debt_ = debt_ > (in_debt_ ? 0 : kCredit);
  }
  // In place of `least`, which a sparse page rests. pages: of the heap, in use. A process of which
  // nothing is known uses one processor.
  Nanos rest(Nanos least, size_t pages) const {
    if (owes()) return kForEver;
    const double part = static_cast<double>(std::clamp(pages, kSmall, kLarge)) / double{kLarge};
    const double from = static_cast<double>(std::max(least, kLeast).n) * part;
    const double longer = from * std::max(1.0, processors_ / kRest);
    return longer < static_cast<double>(kForEver.n) ? Nanos{static_cast<int64_t>(longer)}
                                                    : kForEver;
  }
  bool owes() const { return in_debt_ && (processors_ >= kRest || debt_ > kCreditAtRest); }
  bool works() const { return processors_ > kWorks; }

 private:
  Nanos last_{}, used_{};
  double processors_ = 1;
  double debt_ = 0;  // seconds
  bool in_debt_ = false;
};

}  // namespace llamalloc
