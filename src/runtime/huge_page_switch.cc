// SPDX-License-Identifier: Apache-2.0
#include "runtime/huge_page_switch.h"

#include <atomic>

#include "os/system_facts.h"
#include "runtime/background_state.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constinit std::atomic<HugePageSwitch> last_answer{HugePageSwitch::on};

}  // namespace

void look_at_huge_page_switch() {
  const HugePageSwitch now = huge_page_switch();
  last_answer.store(now, std::memory_order_relaxed);
  process.heap.pages().grant_huge_pages(now != HugePageSwitch::off);
}

const char* huge_pages_state() {
  background.work_lock.assert_held();
  if (!process_world.program_filters_calls()) look_at_huge_page_switch();
  return transparent_huge_pages(last_answer.load(std::memory_order_relaxed));
}

}  // namespace llamalloc
