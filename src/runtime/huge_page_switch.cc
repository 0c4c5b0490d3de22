// SPDX-License-Identifier: Apache-2.0
#include "runtime/huge_page_switch.h"

#include <atomic>
#include <cstring>

#include "os/system_facts.h"
#include "runtime/background_state.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constinit std::atomic<const char*> last_answer{"unknown"};

}  // namespace

// What cannot be read, as a process has no descriptor left, is what it was.
void look_at_huge_page_switch() {
  const char* now = transparent_huge_pages(huge_page_switch());
  if (strcmp(now, "unknown") == 0) return;
  last_answer.store(now, std::memory_order_relaxed);
  process.heap.pages().grant_huge_pages(grants_huge_pages(now));
}

const char* huge_pages_state() {
  background.work_lock.assert_held();
  if (!process_world.program_filters_calls()) look_at_huge_page_switch();
  return last_answer.load(std::memory_order_relaxed);
}

}  // namespace llamalloc
