// SPDX-License-Identifier: Apache-2.0
// The statistics document of contracts/control_protocol.md, rendered piece by piece, so that a slow
// reader can be served without a buffer for the whole document.
#pragma once

#include "os/byte_sink.h"
#include "telemetry/snapshot.h"
#include "telemetry/text.h"

namespace llamalloc {

class StatsJson {
 public:
  // An empty document.
  StatsJson() = default;
  explicit StatsJson(const ProcessSnapshot& snapshot) : snapshot_(&snapshot), part_(Part::head) {}

  // Adds the next piece to an empty text. False: it was the last.
  bool add_next(Text* out);

 private:
  enum class Part : uint8_t { head, tags, groups, pages, done };
  void add_head(Text* out) const;
  void add_stats(Text* out) const;
  void add_peak(const PeakFigures& peak, Text* out) const;
  void add_tag(Text* out);
  void add_predicted(Text* out) const;
  void add_groups(Text* out) const;
  void add_page(Text* out);

  const ProcessSnapshot* snapshot_ = nullptr;
  Part part_ = Part::done;
  bool first_ = true;
  uint32_t next_ = 0;  // tag or page
};

// Writes the whole document.
void write_stats_json(ProcessSnapshot* snapshot, ByteSink& sink);

}  // namespace llamalloc
