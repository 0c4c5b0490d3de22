// SPDX-License-Identifier: Apache-2.0
#include "runtime/system_settings.h"

#include <atomic>
#include <cstring>

#include "os/system_facts.h"
#include "runtime/background_state.h"
#include "runtime/limits.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constexpr Nanos kReadAgain = Nanos::seconds(10);

// Of the system, when they were read last.
constinit const char* huge_pages = "unknown";
constinit bool counts_committed = false;
constinit Nanos read_at{};
constinit std::atomic<const char*> last_answer{"unknown"};

// Where there is no descriptor left it is what it was.
void read_settings(Nanos now) {
  const char* read = transparent_huge_pages();
  if (strcmp(read, "unknown") != 0) huge_pages = read;
  counts_committed = counts_committed_memory(counts_committed);
  read_at = now;
}

void tell_heap() {
  const char* in_force = huge_pages_in_force(huge_pages, huge_page_switch());
  last_answer.store(in_force, std::memory_order_relaxed);
  process.heap.pages().grant_huge_pages(grants_huge_pages(in_force));
  process.heap.pages().uncommit_empty(counts_committed);
  process.heap.direct().give_room(!counts_committed);
}

}  // namespace

void look_at_system_settings(Nanos now) {
  const bool is_due = read_at.n == 0 || now - read_at >= kReadAgain;
  if (is_due && process.backed_bytes() >= kWorthReading) read_settings(now);
  tell_heap();
}

const char* huge_pages_state() {
  background.work_lock.assert_held();
  if (!process_world.program_filters_calls()) {
    read_settings(process.system.now());
    tell_heap();
  }
  return last_answer.load(std::memory_order_relaxed);
}

}  // namespace llamalloc
