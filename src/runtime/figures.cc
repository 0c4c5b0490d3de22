// SPDX-License-Identifier: Apache-2.0
#include "runtime/figures.h"

#include <unistd.h>

#include <cerrno>

#include "os/clock.h"
#include "os/no_cancel.h"
#include "runtime/background_state.h"
#include "runtime/learning.h"
#include "runtime/limits.h"
#include "runtime/process.h"
#include "runtime/system_settings.h"

namespace llamalloc {

constinit Telemetry telemetry({process.heap, process.profiler, prediction_cache, process.counters,
                               process.arena, system_pages});

Figures current_figures() {
  return telemetry.figures(process.threads.in_use());
}

void note_birth() {
  process.birth = static_cast<double>(read_clock(CLOCK_REALTIME).n) * 1e-9;
}

FromSystem read_system(bool with_charge) {
  const NoCancel here;
  LockGuard guard(background.work_lock);
  return {huge_pages_state(), with_charge ? memory_charge() : SIZE_MAX};
}

ProcessSnapshot* take_process_snapshot(const FromSystem& system, const PeakFigures* peak) {
  return telemetry.take({.command = program_invocation_short_name,
                         .pid = getpid(),
                         .started = process.started,
                         .model = process.model_state,
                         .hugepages = system.hugepages,
                         .idle_caches = process_world.idle_caches_state(),
                         .learning = learning_state(),
                         .segregation = segregation_state(),
                         .thread_caches = process.threads.in_use(),
                         .sampling = process.profiler.on(),
                         .charge = system.charge,
                         .peak = peak});
}

}  // namespace llamalloc
