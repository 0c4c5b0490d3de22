// SPDX-License-Identifier: Apache-2.0
// The parts of the allocator in this process, made once, constant-initialised, never torn down: an
// allocation may come before every constructor and after every exit handler.
#pragma once

#include "base/counters.h"
#include "base/options.h"
#include "heap/heap.h"
#include "os/arena.h"
#include "policy/placement.h"
#include "profile/profiler.h"
#include "runtime/thread_registry.h"

namespace llamalloc {

struct Process {
  constexpr Process(PageSource& pages, HeapTables& tables, PredictionCache& cache)
      : system(pages),
        arena(pages),
        heap(pages, arena, tables),
        profiler(arena, pages),
        placement(cache, counters) {}

  PageSource& system;
  MetadataArena arena;
  Heap heap;
  Options options;
  Counters counters;
  Profiler profiler;
  Placement placement;
  ThreadRegistry threads;
  Nanos started{};
  const char* model_state = "none";       // or "loaded", or "refused: REASON"
  std::atomic<bool> ready{false};         // options are read; background work may start
  bool hardened = false;                  // set once, before `ready` (runtime/hardened.h)
  std::atomic<bool> placement_on{false};  // a model is loaded and the worker runs
};

extern Process process;
// What process.heap and process.placement work on, at addresses that the linker knows.
extern HeapTables heap_tables;
extern PredictionCache prediction_cache;

}  // namespace llamalloc
