// SPDX-License-Identifier: Apache-2.0
// For tests: an engine on pages of virtual time.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/fake_world.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {

template <typename TestWorld = FakeWorld>
struct TestEngine {
  FakePages pages;
  std::unique_ptr<HeapTables> tables = std::make_unique<HeapTables>();
  std::unique_ptr<PredictionCache> predictions = std::make_unique<PredictionCache>();
  std::unique_ptr<ThreadCache> cache = std::make_unique<ThreadCache>();
  TestWorld world;
  std::unique_ptr<Engine> engine =
      std::make_unique<Engine>(pages, *tables, *predictions, *cache, world);
};

}  // namespace llamalloc
