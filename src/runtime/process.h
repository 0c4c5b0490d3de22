// SPDX-License-Identifier: Apache-2.0
// The allocator of this process. It is constant-initialised and never destroyed, because an
// allocation may come before every constructor and after every exit handler.
#pragma once

#include "engine/engine.h"
#include "runtime/own_cache.h"
#include "runtime/process_world.h"

namespace llamalloc {

struct Process : Engine {
  using Engine::Engine;

  Nanos started{};
  double birth = 0;  // in seconds since the epoch; of a forked child, when it was forked
  const char* model_state = "none";  // or "loaded", or "refused: REASON"
  std::atomic<bool> ready{false};    // options are read; background work may start
};

extern Process process;
// What process.heap and process.placement work on, at addresses that the linker knows.
extern HeapTables heap_tables;
extern PredictionCache prediction_cache;

}  // namespace llamalloc
