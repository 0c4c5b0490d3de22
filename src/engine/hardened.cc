// SPDX-License-Identifier: Apache-2.0
#include "engine/hardened.h"

#include <cstdio>
#include <cstring>

#include "base/hash.h"
#include "engine/engine.h"

namespace llamalloc {
namespace {

constexpr unsigned char kGuard = 0xfd;
constexpr unsigned char kFreed = 0xdf;
constexpr size_t kGuardMax = 256;  // bytes looked at behind the object
constexpr size_t kHeldMax = 8192;  // bytes of a slot that waits
constexpr uint32_t kHeldCount = 1024;

struct Trailer {
  uint64_t size;  // ^ secret
  std::atomic<uint64_t> check;
};
static_assert(sizeof(Trailer) == kTrailerBytes);

Trailer* trailer_of(const void* p, const Span* span) {
  char* object = static_cast<char*>(const_cast<void*>(p));
  return reinterpret_cast<Trailer*>(object + span->object_size() - kTrailerBytes);
}

size_t guard_bytes(const void* p, const Trailer* trailer, size_t size) {
  const char* end = static_cast<const char*>(p) + size;
  const size_t bytes = static_cast<size_t>(reinterpret_cast<const char*>(trailer) - end);
  return bytes < kGuardMax ? bytes : kGuardMax;
}

bool reads(const void* p, unsigned char byte, size_t bytes) {
  const unsigned char* at = static_cast<const unsigned char*>(p);
  for (size_t i = 0; i < bytes; ++i)
    if (at[i] != byte) return false;
  return true;
}

bool fits(const Span* span, size_t size) {
  return size <= span->object_size() - kTrailerBytes;
}

}  // namespace

bool Hardening::start(MetadataArena& arena, uint64_t secret) {
  secret_ = secret;
  held_ = arena.make_array<std::atomic<void*>>(kHeldCount);
  return held_ != nullptr;
}

uint64_t Hardening::mark(const void* p, uint64_t size) const {
  const uint64_t address = reinterpret_cast<uintptr_t>(p);
  return mix(mix(secret_, address), size);
}

Span* Hardening::take_slot_span(size_t bytes, size_t alignment, PageGroup group, void** out) {
  const int c = aligned_class_of(bytes, alignment);
  if (c == kSizeClasses) return nullptr;
  *out = heap_.take_one(bin_of(group, c, true));
  return *out ? heap_.find(*out) : nullptr;
}

// What leaves the ring is as it was when it was filled, or somebody still writes to it.
void Hardening::check_still_freed(void* p, const Span* span) {
  const Trailer* trailer = trailer_of(p, span);
  const size_t size = trailer->size ^ secret_;
  if (trailer->check.load(std::memory_order_relaxed) != freed_mark(p) || !fits(span, size) ||
      !reads(p, kFreed, size))
    world_.report_misuse(p, span, "written to after it was freed");
}

void* Hardening::take(size_t size, size_t alignment, PageGroup group) {
  const size_t bytes = size + kTrailerBytes;
  void* p = nullptr;
  Span* span = nullptr;
  if (bytes <= kSmallMax && alignment <= kBlockSize)
    span = take_slot_span(bytes, alignment, group, &p);
  else if ((span = heap_.allocate(bytes, alignment, group, true)) != nullptr)
    p = span->base;
  if (span == nullptr) return nullptr;
  Trailer* trailer = trailer_of(p, span);
  memset(static_cast<char*>(p) + size, kGuard, guard_bytes(p, trailer, size));
  trailer->size = size ^ secret_;
  trailer->check.store(mark(p, size), std::memory_order_relaxed);
  return p;
}

size_t Hardening::size_of(const void* p, const Span* span) const {
  const size_t size = trailer_of(p, span)->size ^ secret_;
  return fits(span, size) ? size : 0;
}

bool Hardening::end(void* p, const Span* span, size_t given) {
  Trailer* trailer = trailer_of(p, span);
  const size_t size = trailer->size ^ secret_;
  const uint64_t before = trailer->check.exchange(freed_mark(p), std::memory_order_acq_rel);
  if (before == freed_mark(p)) {
    world_.report_misuse(p, span, "freed twice");
    return false;
  }
  if (before != mark(p, size) || !fits(span, size) ||
      !reads(static_cast<char*>(p) + size, kGuard, guard_bytes(p, trailer, size))) {
    world_.report_misuse(p, span, "written past its end");
    trailer->size = secret_;  // not to be trusted: from now on the object has no bytes
    trailer->check.store(freed_mark(p), std::memory_order_relaxed);
  } else if (given != kUnknownSize && given != size) {
    char what[80];
    snprintf(what, sizeof(what), "freed with the size %zu, but allocated with %zu", given, size);
    world_.report_misuse(p, span, what);
  }
  return true;
}

void* Hardening::hold_back(void* p, const Span* span) {
  if (span->kind == SpanKind::direct && span->bytes > kRunMax) return p;
  memset(p, kFreed, size_of(p, span));
  if (span->kind != SpanKind::slots || span->slot_size > kHeldMax) return p;
  const uint32_t at = next_.fetch_add(1, std::memory_order_relaxed) % kHeldCount;
  void* oldest = held_[at].exchange(p, std::memory_order_acq_rel);
  if (oldest != nullptr) check_still_freed(oldest, heap_.find(oldest));
  return oldest;
}

}  // namespace llamalloc
