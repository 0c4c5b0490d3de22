// SPDX-License-Identifier: Apache-2.0
// Hardened mode (option `hardened`): every object carries its exact size and a canary, freed memory
// is filled and waits before it is used again.
//
//   slot   [ object: size bytes | guard: 0xfd ... | size ^ secret | check ]
//
//   check  mix(address, size, secret) while alive, mix(address, secret) once freed: a free finds a
//          double free and a write past the end, exactly, and by an exchange also between threads
//   freed  filled with 0xdf; small ones wait in a ring of 1,024: what was written there meanwhile
//          is found when they leave it
//
// Such objects live in the spans of sampled ones, which no thread caches: so the fast paths know
// nothing of all this, and their code is the same. Objects from before the options were read (the
// loader's) are plain; is_hardened tells them apart.
#pragma once

#include <cstddef>

#include "runtime/process.h"

namespace llamalloc {

inline constexpr size_t kTrailerBytes = 16;

inline bool is_hardened(const Span* span) {
  return __builtin_expect(process.hardened, 0) && span->sampled;
}

// Before any other of these.
void start_hardened_mode();

// A hardened object; null: no memory. alignment: a power of two. size: at most PTRDIFF_MAX / 2.
void* take_hardened(size_t size, size_t alignment, PageGroup group);
// The size as asked, all of which may be written.
size_t hardened_size(const void* p, const Span* span);

inline constexpr size_t kUnknownSize = ~size_t{0};
// Marks the object as freed; reports what is wrong with it. given: the size that the caller of a
// sized delete named. False: it was freed before, leave it alone.
bool end_hardened(void* p, const Span* span, size_t given);
// Fills the freed object; the one to give to the heap now, or null.
void* hold_back(void* p, const Span* span);

}  // namespace llamalloc
