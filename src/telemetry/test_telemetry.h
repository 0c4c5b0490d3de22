// SPDX-License-Identifier: Apache-2.0
// For tests: a heap with everything that telemetry shows, and the text of a document.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "telemetry/telemetry.h"
#include "telemetry/text.h"

namespace llamalloc {

// On pages of the system, or of a fake one (which is for one thread).
template <typename Pages>
class TelemetryOn : public testing::Test {
 protected:
  Pages system_;
  MetadataArena arena_{system_};
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  Heap heap_{system_, arena_, *tables_};
  std::unique_ptr<Profiler> profiler_ = std::make_unique<Profiler>(arena_, system_);
  std::unique_ptr<PredictionCache> cache_ = std::make_unique<PredictionCache>();
  Counters counters_;
  Telemetry telemetry_{{heap_, *profiler_, *cache_, counters_, arena_, system_}};
};

// All pieces of a document; each is below `most` bytes.
template <typename Document>
std::string all_of(Document document, size_t most) {
  const auto piece = std::make_unique<Text>();
  std::string text;
  for (bool more = true; more;) {
    piece->clear();
    more = document.add_next(piece.get());
    EXPECT_LT(piece->size(), most);
    text.append(piece->data(), piece->size());
  }
  return text;
}

}  // namespace llamalloc
