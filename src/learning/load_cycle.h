// SPDX-License-Identifier: Apache-2.0
// Where a load stands between its peaks and its troughs, from its live bytes about once a second.
//
//   peak   ----.                 .---     the most of late; falls towards live in about 5 minutes
//   0.9  .......\.............../....     high above
//                \             /
//   0.8  .........\.........../......     trough below, until it is high again; while live still
//                  '---------'            changes fast it is on its way
#pragma once

#include <cstddef>

#include "base/units.h"

namespace llamalloc {

enum class LoadPhase { high, on_its_way, trough };

class LoadCycle {
 public:
  static constexpr Nanos kDecay = Nanos::seconds(300);
  static constexpr double kHigh = 0.9;  // of the peak
  static constexpr double kLow = 0.8;
  static constexpr double kAtRest = 1.0 / 16;  // of the peak: live changes less in a step

  // Between steps, so that no peak is missed.
  void see(size_t live) {
    if (static_cast<double>(live) > peak_) peak_ = static_cast<double>(live);
  }
  // Whether live is high again, and the last step did not see it: that one is due at once. A short
  // peak may fit between two steps.
  bool rises(size_t live) const { return low_ && static_cast<double>(live) >= kHigh * peak_; }
  // since: the last step.
  LoadPhase step(Nanos since, size_t live);
  // Bytes; above 0 once something lived.
  double peak() const { return peak_; }
  // Below the marks, whether at rest or on the way.
  bool is_low() const { return low_; }

 private:
  double peak_ = 0;
  double last_ = 0;
  bool low_ = false;
};

}  // namespace llamalloc
