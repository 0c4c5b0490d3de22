// SPDX-License-Identifier: Apache-2.0
#include "runtime/limits.h"

#include "base/check.h"
#include "os/memory_limits.h"
#include "runtime/background_state.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constinit LimitWatch watch;  // used by the worker only
constinit bool said_soft = false;

void read_if_due(Nanos now, size_t own) {
  if (own < kWorthReading) watch = {};  // what was read may be old when it grows again
  if (own < kWorthReading || !watch.is_due(now)) return;
  if (!process.options.follow_limits || process_world.program_filters_calls())
    return watch.forget(now);
  const MemoryLimits limits = read_memory_limits();
  if (limits.unreadable != 0) process.counters.add(Stat::limits_unreadable, limits.unreadable);
  watch.take(now, limits.limit, limits.room, limits.pressure, own);
  watch.take_tightest(limits.tightest, limits.tightest_room);
}

}  // namespace

size_t memory_charge() {
  background.work_lock.assert_held();
  const bool may_read = process.options.follow_limits && !process_world.program_filters_calls();
  return may_read ? read_memory_charge() : SIZE_MAX;
}

Pressure memory_pressure(Nanos now) {
  const size_t own = process.backed_bytes();
  read_if_due(now, own);
  const size_t soft = Options::current(process.options.soft_limit);
  const size_t hard = Options::current(process.options.hard_limit);
  if (soft != 0 && own >= soft && !said_soft) {
    said_soft = true;
    print_line("soft_limit of %zu MiB is reached; what is free is returned at once", soft >> 20);
  }
  return watch.pressure(own, soft, hard);
}

}  // namespace llamalloc
