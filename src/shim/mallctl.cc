// SPDX-License-Identifier: Apache-2.0
// jemalloc's mallctl, as far as tools ask: a program that was linked with jemalloc and now runs on
// us gets true answers. Names of arenas and caches that it makes for mallocx go to its jemalloc
// (runtime/jemalloc.h). What is left is ENOENT, as for a name that jemalloc lacks.
//
//   name     "arena.0.purge"           numbers in it become *
//   pattern  "arena.*.purge"
//   mib      [ kFirstMib + row, 0, 0 ]
//
// A mib is as long as the name has parts; the number stands in its place.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/begins.h"
#include "runtime/allocator.h"
#include "runtime/figures.h"
#include "runtime/jemalloc.h"
#include "runtime/release.h"
#include "shim/call_site.h"

using namespace llamalloc;

namespace {

constexpr size_t kMostParts = 4;
constexpr size_t kFirstMib = 1 << 20;  // jemalloc's own begin at 0

// The values of the last epoch: those of one look agree.
struct Epoch {
  std::atomic<uint64_t> number{0};
  std::atomic<size_t> stats[kStats]{};
};
constinit Epoch epoch;

void begin_epoch() {
  Figures figures = telemetry.quick_figures(process.threads.in_use());
  add_figures_of_jemalloc(&figures);
  for (int i = 0; i < kStats; ++i)
    epoch.stats[i].store(figures.stats[i], std::memory_order_relaxed);
  epoch.number.fetch_add(1, std::memory_order_relaxed);
}

// What a caller passes; each of the two may be missing.
struct Exchange {
  void* old;
  size_t* old_length;
  const void* value;
  size_t length;

  bool writes() const { return value != nullptr; }
  bool may_write() const { return writes() || length != 0; }  // what cannot be written
  // As jemalloc: of a wrong length, what fits is copied.
  template <typename T>
  int give(T now) const {
    if (old == nullptr || old_length == nullptr) return 0;
    const size_t room = *old_length < sizeof(T) ? *old_length : sizeof(T);
    memcpy(old, &now, room);
    const bool fits = *old_length == sizeof(T);
    *old_length = room;
    return fits ? 0 : EINVAL;
  }
  template <typename T>
  int give_only(T now) const {
    return may_write() ? EPERM : give(now);
  }
};

int stat(Stat which, const Exchange& e) {
  if (epoch.number.load(std::memory_order_relaxed) == 0) begin_epoch();
  return e.give_only(epoch.stats[static_cast<int>(which)].load(std::memory_order_relaxed));
}

int new_epoch(const Exchange& e) {
  if (e.writes() && e.length != sizeof(uint64_t)) return EINVAL;
  if (e.writes()) begin_epoch();
  return e.give(epoch.number.load(std::memory_order_relaxed));
}

// An arena that jemalloc made for mallocx is its own to purge.
int purge(const char* how, size_t arena, const Exchange& e) {
  if (e.may_write() || e.old != nullptr) return EPERM;
  if (const Jemalloc* const other = other_jemalloc()) {
    char name[40];
    snprintf(name, sizeof(name), "arena.%zu.%s", arena, how);
    other->mallctl(name, nullptr, nullptr, nullptr, 0);
  }
  release_memory(0);
  return 0;
}

// There is one arena, and every thread is in it; but for mallocx, a thread may be in another one.
int arena_of_thread(const Exchange& e) {
  if (const Jemalloc* const other = other_jemalloc())
    return other->mallctl("thread.arena", e.old, e.old_length, const_cast<void*>(e.value),
                          e.length);
  unsigned wanted = 0;
  if (e.writes() && e.length != sizeof(wanted)) return EINVAL;
  if (e.writes()) memcpy(&wanted, e.value, sizeof(wanted));
  return wanted == 0 ? e.give(0u) : EFAULT;
}

// What a jemalloc beside us says of its arenas, how many they are and in which unit it counts their
// pages; else what we do.
template <typename T>
int of_arenas(const char* name, T ours, const Exchange& e) {
  const Jemalloc* const other = other_jemalloc();
  return other == nullptr || e.may_write() ? e.give_only(ours)
                                           : other->mallctl(name, e.old, e.old_length, nullptr, 0);
}

struct Row {
  const char* pattern;
  int (*answer)(size_t number, const Exchange& e);
};
constexpr Row kRows[] = {
    {"version",
     [](size_t, const Exchange& e) { return e.give_only("llamalloc " LLAMALLOC_VERSION); }},
    {"epoch", [](size_t, const Exchange& e) { return new_epoch(e); }},
    {"stats.allocated", [](size_t, const Exchange& e) { return stat(Stat::allocated, e); }},
    {"stats.active", [](size_t, const Exchange& e) { return stat(Stat::active, e); }},
    {"stats.metadata", [](size_t, const Exchange& e) { return stat(Stat::metadata, e); }},
    {"stats.resident", [](size_t, const Exchange& e) { return stat(Stat::resident, e); }},
    {"stats.mapped", [](size_t, const Exchange& e) { return stat(Stat::mapped, e); }},
    {"stats.retained", [](size_t, const Exchange& e) { return stat(Stat::retained, e); }},
    {"arenas.narenas",
     [](size_t, const Exchange& e) { return of_arenas("arenas.narenas", 1u, e); }},
    {"arenas.page",
     [](size_t, const Exchange& e) { return of_arenas("arenas.page", kSmallPage, e); }},
    {"arenas.quantum", [](size_t, const Exchange& e) { return e.give_only(size_t{16}); }},
    {"arena.*.purge", [](size_t arena, const Exchange& e) { return purge("purge", arena, e); }},
    {"arena.*.decay", [](size_t arena, const Exchange& e) { return purge("decay", arena, e); }},
    {"thread.arena", [](size_t, const Exchange& e) { return arena_of_thread(e); }},
};
constexpr size_t kRowCount = sizeof(kRows) / sizeof(kRows[0]);

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Where the pattern has a number; kMostParts: nowhere.
size_t place_of_number(const char* pattern) {
  size_t part = 0;
  for (; *pattern != 0; ++pattern) {
    if (*pattern == '*') return part;
    part += *pattern == '.';
  }
  return kMostParts;
}

size_t parts_of(const char* pattern) {
  size_t parts = 1;
  for (; *pattern != 0; ++pattern) parts += *pattern == '.';
  return parts;
}

bool matches(const char* pattern, const char* name, size_t* number) {
  for (; *pattern != 0; ++pattern) {
    if (*pattern != '*') {
      if (*pattern != *name++) return false;
      continue;
    }
    const char* const first = name;
    for (*number = 0; is_digit(*name) && name - first < 9; ++name)
      *number = *number * 10 + static_cast<size_t>(*name - '0');
    if (name == first) return false;
  }
  return *name == 0;
}

// The jemalloc that answers a name that we do not know. Names of its options and threads are not
// passed on: they would speak of a heap in which next to nothing is, or start a thread for it.
const Jemalloc* who_answers(const char* name) {
  const bool is_its_own =
      begins(name, "arena") || begins(name, "stats.arenas.") || begins(name, "tcache.");
  return is_its_own ? find_jemalloc_early() : nullptr;
}

// kRowCount: no such name.
size_t find_row(const char* name, size_t* number) {
  size_t row = 0;
  while (row < kRowCount && !matches(kRows[row].pattern, name, number)) ++row;
  return row;
}

}  // namespace

extern "C" {

LLAMALLOC_EXPORT int mallctl(const char* name, void* old, size_t* old_length, void* value,
                             size_t length) {
  size_t number = 0;
  const size_t row = find_row(name, &number);
  if (row != kRowCount) return kRows[row].answer(number, {old, old_length, value, length});
  const Jemalloc* const other = who_answers(name);
  return other != nullptr ? other->mallctl(name, old, old_length, value, length) : ENOENT;
}

LLAMALLOC_EXPORT int mallctlnametomib(const char* name, size_t* mib, size_t* length) {
  size_t number = 0;
  const size_t row = find_row(name, &number);
  if (row == kRowCount) {
    const Jemalloc* const other = who_answers(name);
    return other != nullptr ? other->mallctlnametomib(name, mib, length) : ENOENT;
  }
  const size_t parts = parts_of(kRows[row].pattern);
  if (*length < parts) return EINVAL;
  for (size_t i = 0; i < parts; ++i) mib[i] = 0;
  mib[0] = kFirstMib + row;
  const size_t place = place_of_number(kRows[row].pattern);
  if (place < parts) mib[place] = number;
  *length = parts;
  return 0;
}

LLAMALLOC_EXPORT int mallctlbymib(const size_t* mib, size_t length, void* old, size_t* old_length,
                                  void* value, size_t new_length) {
  if (length == 0) return ENOENT;
  if (mib[0] < kFirstMib) {
    const Jemalloc* const other = other_jemalloc();
    return other != nullptr ? other->mallctlbymib(mib, length, old, old_length, value, new_length)
                            : ENOENT;
  }
  if (mib[0] - kFirstMib >= kRowCount) return ENOENT;
  const Row& row = kRows[mib[0] - kFirstMib];
  if (length != parts_of(row.pattern)) return ENOENT;
  const size_t place = place_of_number(row.pattern);
  const size_t number = place < length ? mib[place] : 0;
  return row.answer(number, {old, old_length, value, new_length});
}

}  // extern "C"
