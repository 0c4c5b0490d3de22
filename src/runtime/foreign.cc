// SPDX-License-Identifier: Apache-2.0
#include "runtime/foreign.h"

#include <atomic>

#include "base/check.h"
#include "base/errno_keeper.h"
#include "os/foreign.h"
#include "runtime/dynamic_symbol.h"
#include "runtime/jemalloc.h"

namespace llamalloc {
namespace {

constinit std::atomic<bool> said{false};

using Free = void(void*);
using UsableSize = size_t(const void*);

// Null: not looked up yet. The first answer stands: a later one may be a name that was replaced.
constinit std::atomic<Free*> next_free{nullptr};
constinit std::atomic<UsableSize*> next_usable_size{nullptr};

template <typename F>
F* find(std::atomic<F*>& known, const char* name) {
  F* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) {
    F* found = next_function<F>(name);
    if (known.compare_exchange_strong(function, found, std::memory_order_relaxed)) return found;
  }
  return function;
}

Free* find_free() {
  return find(next_free, "free");
}
UsableSize* find_usable_size() {
  return find(next_usable_size, "malloc_usable_size");
}

}  // namespace

bool free_foreign(void* p) {
  const ErrnoKeeper keep;
  const Jemalloc* const other = find_jemalloc_early();
  if (other != nullptr && other->owns(p)) {
    other->dallocx(p, 0);
    return true;
  }
  if (!is_foreign(p)) return false;
  Free* real = find_free();
  if (real == nullptr) return false;
  if (!said.exchange(true, std::memory_order_relaxed))
    print_line(
        "free(%p): the C library's malloc allocated this object, probably called through dlsym or "
        "RTLD_DEEPBIND; passed on to the C library (reported once)",
        p);
  real(p);
  return true;
}

size_t foreign_size(const void* p) {
  const Jemalloc* const other = find_jemalloc_early();
  if (other != nullptr && other->owns(p)) return other->sallocx(p, 0);
  if (!is_foreign(p)) return 0;
  UsableSize* real = find_usable_size();
  return real ? real(p) : 0;
}

void remember_foreign_functions() {
  find_free();
  find_usable_size();
}

}  // namespace llamalloc
