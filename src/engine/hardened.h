// SPDX-License-Identifier: Apache-2.0
// Hardened mode (option `hardened`): every object stores its exact size and a canary. Freed memory
// is filled, and reused only after a delay.
//
//   slot   [ object: size bytes | guard: 0xfd ... | size ^ secret | check ]
//
//   check  mix(address, size, secret) while alive, mix(address, secret) once freed. A free finds a
//          double free, and a write past the object's exact end. It exchanges `check` atomically,
//          so it also finds two threads that free the same object.
//   freed  filled with 0xdf; small objects wait in a ring of 1,024. A write to a freed object is
//          found when the object leaves the ring.
//
// Hardened objects use the spans for samples. No thread caches the slots of those spans, so the
// fast paths need no code for hardened mode. Objects that the loader allocated before the options
// were read are plain; is_hardened tells them apart.
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

  // Called first. secret: an unpredictable number. False: no memory for the ring.
  bool start(MetadataArena& arena, uint64_t secret);
  bool is_on() const { return held_ != nullptr; }
  bool is_hardened(const Span* span) const { return __builtin_expect(is_on(), 0) && span->sampled; }

  // A hardened object; null: no memory. alignment: a power of two. size: below PTRDIFF_MAX.
  void* take(size_t size, size_t alignment, PageGroup group);
  // The requested size; all of it may be written.
  size_t size_of(const void* p, const Span* span) const;
  // Marks the object as freed and reports any fault. given: the size passed to a sized delete, or
  // kUnknownSize. False: it had been freed before, and must not be touched.
  bool end(void* p, const Span* span, size_t given);
  // Fills the freed object; a small one goes into the ring. Returns the object to give to the heap
  // now (a large one itself, or the one that leaves the ring), or null.
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
