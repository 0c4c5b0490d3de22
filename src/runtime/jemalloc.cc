// SPDX-License-Identifier: Apache-2.0
#include "runtime/jemalloc.h"

#include <atomic>

#include "base/errno_keeper.h"
#include "runtime/dynamic_symbol.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

constinit Jemalloc functions{};
constinit std::atomic<const Jemalloc*> found{nullptr};

template <typename F>
bool find(F** function, const char* name) {
  *function = next_function<F>(name);
  return *function != nullptr;
}

void look_for_it() {
  const ErrnoKeeper keep;
  Jemalloc& f = functions;
  size_t parts = 2;
  if (find(&f.mallctl, "mallctl") && find(&f.mallctlnametomib, "mallctlnametomib") &&
      find(&f.mallctlbymib, "mallctlbymib") && find(&f.dallocx, "dallocx") &&
      find(&f.sdallocx, "sdallocx") && find(&f.sallocx, "sallocx") && find(&f.nallocx, "nallocx") &&
      f.mallctlnametomib("arenas.lookup", f.lookup, &parts) == 0)
    found.store(&f, std::memory_order_release);
}

}  // namespace

bool Jemalloc::owns(const void* p) const {
  unsigned arena = 0;
  size_t length = sizeof(arena);
  return mallctlbymib(lookup, 2, &arena, &length, &p, sizeof(p)) == 0;
}

void add_figures_of_jemalloc(Figures* figures) {
  static constexpr struct {
    const char* name;
    Stat stat;
  } kSums[] = {
      {"stats.allocated", Stat::allocated}, {"stats.active", Stat::active},
      {"stats.metadata", Stat::metadata},   {"stats.resident", Stat::resident},
      {"stats.mapped", Stat::mapped},       {"stats.retained", Stat::retained},
  };
  const Jemalloc* const other = other_jemalloc();
  if (other == nullptr) return;
  uint64_t now = 1;
  other->mallctl("epoch", nullptr, nullptr, &now, sizeof(now));
  for (const auto& sum : kSums) {
    size_t theirs = 0, length = sizeof(theirs);
    if (other->mallctl(sum.name, &theirs, &length, nullptr, 0) == 0)
      figures->stats[static_cast<int>(sum.stat)] += theirs;
  }
}

const Jemalloc* other_jemalloc() {
  return found.load(std::memory_order_acquire);
}

const Jemalloc* find_jemalloc_early() {
  const Jemalloc* other = other_jemalloc();
  if (other != nullptr || process.ready.load(std::memory_order_relaxed)) return other;
  look_for_it();
  return other_jemalloc();
}

}  // namespace llamalloc
