// SPDX-License-Identifier: Apache-2.0
// The statistics document of contracts/control_protocol.md, piece by piece, so that who passes it
// on to a slow reader needs no room for all of it.
#pragma once

#include "os/byte_sink.h"
#include "telemetry/snapshot.h"
#include "telemetry/text.h"

namespace llamalloc {

class StatsJson {
 public:
  // Nothing to say.
  StatsJson() = default;
  explicit StatsJson(const ProcessSnapshot& snapshot) : snapshot_(&snapshot), part_(Part::head) {}

  // Adds the next piece to an empty text. False: it was the last.
  bool add_next(Text* out);

 private:
  enum class Part : uint8_t { head, tags, groups, pages, done };
  void add_head(Text* out) const;
  void add_stats(Text* out) const;
  void add_tag(Text* out);
  void add_predicted(Text* out) const;
  void add_groups(Text* out) const;
  void add_page(Text* out);

  const ProcessSnapshot* snapshot_ = nullptr;
  Part part_ = Part::done;
  bool first_ = true;
  uint32_t next_ = 0;  // tag or page
};

// The whole of it.
void write_stats_json(ProcessSnapshot* snapshot, ByteSink& sink);

}  // namespace llamalloc
