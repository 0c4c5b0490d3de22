// SPDX-License-Identifier: Apache-2.0
#include "runtime/figures.h"

#include <unistd.h>

#include <cerrno>

#include "runtime/huge_page_switch.h"
#include "runtime/learning.h"
#include "runtime/process.h"

namespace llamalloc {

constinit Telemetry telemetry({process.heap, process.profiler, prediction_cache, process.counters,
                               process.arena, system_pages});

Figures current_figures() {
  return telemetry.figures(process.threads.in_use());
}

ProcessSnapshot* take_process_snapshot(size_t charge, const PeakFigures* peak) {
  return telemetry.take({.command = program_invocation_short_name,
                         .pid = getpid(),
                         .started = process.started,
                         .model = process.model_state,
                         .hugepages = huge_pages_state(),
                         .idle_caches = process_world.idle_caches_state(),
                         .learning = learning_state(),
                         .segregation = segregation_state(),
                         .thread_caches = process.threads.in_use(),
                         .sampling = process.profiler.on(),
                         .charge = charge,
                         .peak = peak});
}

}  // namespace llamalloc
