// SPDX-License-Identifier: Apache-2.0
// The figures as Prometheus text (exposition format 0.0.4), piece by piece. Every row of stats.def
// is a metric: llamalloc_NAME with the unit and _total as Prometheus names them. Bytes and seconds
// are the only units; other things are counted.
#pragma once

#include "telemetry/figures.h"
#include "telemetry/text.h"

namespace llamalloc {

// Facts beside the figures; the texts are not copied.
struct MetricsFacts {
  double start_seconds = 0;  // since the epoch: when the process started
  const char* version = "";
  const char* hugepages = "";
  const char* model = "";
  bool learning = false;
  bool placement = false;  // objects are placed by lifetime now
  bool sampling = false;
  size_t sample_interval = 0;
  size_t charge = SIZE_MAX;  // of the control group; SIZE_MAX: not known, and not shown
};

class Metrics {
 public:
  // An empty document.
  Metrics() = default;
  Metrics(const Figures& figures, const uint64_t (&predicted)[kLifetimeClasses],
          const MetricsFacts& facts);

  // Adds the next piece to an empty text. False: it was the last.
  bool add_next(Text* out);

 private:
  enum class Part : uint8_t { stats, groups, state, done };
  void add_stat(int stat, Text* out) const;
  void add_groups(Text* out) const;
  void add_predicted(Text* out) const;
  void add_state(Text* out) const;

  Figures figures_;
  uint64_t predicted_[kLifetimeClasses] = {};
  MetricsFacts facts_;
  Part part_ = Part::done;
  int next_ = 0;
};

}  // namespace llamalloc
