// SPDX-License-Identifier: Apache-2.0
#include "runtime/deep_binding.h"

#include <atomic>

#include "base/check.h"
#include "base/errno_keeper.h"
#include "runtime/dynamic_symbol.h"
#include "runtime/foreign.h"

namespace llamalloc {
namespace {

constinit std::atomic<bool> replaced{false};
constinit std::atomic<bool> refused{false};

}  // namespace

void prepare_deep_binding(const char* path, const ReplacedName* names, size_t count) {
  if (replaced.load(std::memory_order_acquire)) return;
  remember_foreign_functions();
  if (replace_c_library_names(names, count))
    replaced.store(true, std::memory_order_release);
  else if (!refused.exchange(true, std::memory_order_relaxed))
    print_line(
        "dlopen(%s) with RTLD_DEEPBIND: the library uses the C library's malloc, because the "
        "system did not let us replace that malloc; if it frees memory that others allocated, the "
        "process aborts; open it without RTLD_DEEPBIND (reported once)",
        path);
}

void* next_dlopen(const char* name) {
  const ErrnoKeeper keep;
  return next_symbol(name);
}

}  // namespace llamalloc
