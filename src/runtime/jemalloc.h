// SPDX-License-Identifier: Apache-2.0
// The jemalloc that a program is linked with, and that is loaded beside us. malloc, free and
// sdallocx are ours then, but mallocx, rallocx and dallocx stay its own. So an object that its
// mallocx made may come to our free, realloc, malloc_usable_size or sdallocx, as jemalloc allows,
// and goes on to it. BIND's programs do that, and Redis since 7.4.
#pragma once

#include <cstddef>

#include "telemetry/figures.h"

namespace llamalloc {

struct Jemalloc {
  int (*mallctl)(const char*, void*, size_t*, void*, size_t);
  int (*mallctlnametomib)(const char*, size_t*, size_t*);
  int (*mallctlbymib)(const size_t*, size_t, void*, size_t*, void*, size_t);
  void (*dallocx)(void*, int flags);
  void (*sdallocx)(void*, size_t, int flags);
  size_t (*sallocx)(const void*, int flags);
  size_t (*nallocx)(size_t, int flags);

  // It made p, which may be any address. Takes the lock of its statistics.
  bool owns(const void* p) const;

  size_t lookup[2];  // the numbers of arenas.lookup
};

// Null: none is loaded, or it is older than 5.1, or a part of it is missing.
const Jemalloc* other_jemalloc();
// The same; but until we have started, it is looked for, as constructors of libraries come before
// ours. Later lookups would wait for the loader's lock.
const Jemalloc* find_jemalloc_early();
// Adds what the program made by mallocx, as jemalloc counts it now; nothing where none is loaded.
void add_figures_of_jemalloc(Figures* figures);

}  // namespace llamalloc
