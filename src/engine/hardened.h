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

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/world.h"
#include "heap/heap.h"
#include "os/arena.h"

namespace llamalloc {

inline constexpr size_t kTrailerBytes = 16;

class Hardening {
 public:
  constexpr Hardening(Heap& heap, World& world) : heap_(heap), world_(world) {}

  // Before any other of these; secret: a number that nobody guesses. False: no memory for the ring.
  bool start(MetadataArena& arena, uint64_t secret);
  bool is_on() const { return held_ != nullptr; }
  bool is_hardened(const Span* span) const { return __builtin_expect(is_on(), 0) && span->sampled; }

  // A hardened object; null: no memory. alignment: a power of two. size: below PTRDIFF_MAX.
  void* take(size_t size, size_t alignment, PageGroup group);
  // The size as asked, all of which may be written.
  size_t size_of(const void* p, const Span* span) const;
  // Marks the object as freed; reports what is wrong with it. given: the size that the caller of a
  // sized delete named, or kUnknownSize. False: it was freed before, leave it alone.
  bool end(void* p, const Span* span, size_t given);
  // Fills the freed object; the one to give to the heap now, or null.
  void* hold_back(void* p, const Span* span);

 private:
  uint64_t mark(const void* p, uint64_t size) const;
  uint64_t freed_mark(const void* p) const { return mark(p, ~uint64_t{0}); }
  Span* take_slot_span(size_t bytes, size_t alignment, PageGroup group, void** out);
  void check_still_freed(void* p, const Span* span);

  Heap& heap_;
  World& world_;
  uint64_t secret_ = 0;
  std::atomic<uint32_t> next_{0};
  std::atomic<void*>* held_ = nullptr;  // the ring; null: off
};

}  // namespace llamalloc
