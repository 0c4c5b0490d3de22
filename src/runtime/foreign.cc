// SPDX-License-Identifier: Apache-2.0
#include "runtime/foreign.h"

#include <dlfcn.h>

#include <atomic>

#include "base/check.h"
#include "base/errno_keeper.h"
#include "os/foreign.h"

// A program linked statically has none, and no other malloc either.
#pragma weak dlsym

namespace llamalloc {
namespace {

constinit std::atomic<bool> said{false};

template <typename F>
F* next_function(const char* name) {
  return &dlsym != nullptr ? reinterpret_cast<F*>(dlsym(RTLD_NEXT, name)) : nullptr;
}

}  // namespace

bool free_foreign(void* p) {
  const ErrnoKeeper keep;
  if (!is_foreign(p)) return false;
  auto* real = next_function<void(void*)>("free");
  if (real == nullptr) return false;
  if (!said.exchange(true, std::memory_order_relaxed))
    print_line(
        "free(%p): the C library's malloc allocated this object, for a library opened with "
        "RTLD_DEEPBIND; passed on to the C library (reported once)",
        p);
  real(p);
  return true;
}

size_t foreign_size(const void* p) {
  if (!is_foreign(p)) return 0;
  auto* real = next_function<size_t(const void*)>("malloc_usable_size");
  return real ? real(p) : 0;
}

}  // namespace llamalloc
