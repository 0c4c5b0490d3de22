// SPDX-License-Identifier: Apache-2.0
#include "runtime/hardened.h"

#include <cstring>

#include "runtime/misuse.h"

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

struct HardenedState {
  uint64_t secret = 0;
  std::atomic<uint32_t> next{0};
  std::atomic<void*> held[kHeldCount];
};
constinit HardenedState state{};

Trailer* trailer_of(const void* p, const Span* span) {
  char* object = static_cast<char*>(const_cast<void*>(p));
  return reinterpret_cast<Trailer*>(object + span->object_size() - kTrailerBytes);
}

uint64_t mark(const void* p, uint64_t size) {
  const uint64_t address = reinterpret_cast<uintptr_t>(p);
  return PredictionCache::mix(PredictionCache::mix(state.secret, address), size);
}

uint64_t freed_mark(const void* p) {
  return mark(p, ~uint64_t{0});
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

Span* take_slot_span(size_t bytes, size_t alignment, PageGroup group, void** out) {
  int c = size_class_of(bytes);
  while (c < kSizeClasses && kSizeClassRows[c].size % alignment != 0) ++c;
  if (c == kSizeClasses) return nullptr;
  *out = process.heap.take_one(bin_of(group, c, true));
  return *out ? process.heap.find(*out) : nullptr;
}

// What leaves the ring is as it was when it was filled, or somebody still writes to it.
void check_still_freed(void* p, const Span* span) {
  const Trailer* trailer = trailer_of(p, span);
  const size_t size = trailer->size ^ state.secret;
  if (trailer->check.load(std::memory_order_relaxed) != freed_mark(p) || !fits(span, size) ||
      !reads(p, kFreed, size))
    report_misuse(p, span, "written to after it was freed");
}

// What the trailer says is no longer to be trusted: from now on the object has no bytes.
void report_overrun(void* p, const Span* span, Trailer* trailer) {
  report_misuse(p, span, "written past its end");
  trailer->size = state.secret;
  trailer->check.store(freed_mark(p), std::memory_order_relaxed);
}

}  // namespace

void start_hardened_mode() {
  state.secret = PredictionCache::mix(static_cast<uint64_t>(process.system.now().n),
                                      reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
  process.hardened = true;
}

void* take_hardened(size_t size, size_t alignment, PageGroup group) {
  const size_t bytes = size + kTrailerBytes;
  void* p = nullptr;
  Span* span = nullptr;
  if (bytes <= kSmallMax && alignment <= kBlockSize)
    span = take_slot_span(bytes, alignment, group, &p);
  else if ((span = process.heap.allocate(bytes, alignment, group, true)) != nullptr)
    p = span->base;
  if (span == nullptr) return nullptr;
  Trailer* trailer = trailer_of(p, span);
  memset(static_cast<char*>(p) + size, kGuard, guard_bytes(p, trailer, size));
  trailer->size = size ^ state.secret;
  trailer->check.store(mark(p, size), std::memory_order_relaxed);
  return p;
}

size_t hardened_size(const void* p, const Span* span) {
  const size_t size = trailer_of(p, span)->size ^ state.secret;
  return fits(span, size) ? size : 0;
}

bool end_hardened(void* p, const Span* span, size_t given) {
  Trailer* trailer = trailer_of(p, span);
  const size_t size = trailer->size ^ state.secret;
  const uint64_t before = trailer->check.exchange(freed_mark(p), std::memory_order_acq_rel);
  if (before == freed_mark(p)) {
    report_misuse(p, span, "freed twice");
    return false;
  }
  if (before != mark(p, size) || !fits(span, size) ||
      !reads(static_cast<char*>(p) + size, kGuard, guard_bytes(p, trailer, size)))
    report_overrun(p, span, trailer);
  else if (given != kUnknownSize && given != size)
    report_misuse(p, span, "freed with the size %zu, but allocated with %zu", given, size);
  return true;
}

void* hold_back(void* p, const Span* span) {
  if (span->kind == SpanKind::direct) return p;
  const size_t size = hardened_size(p, span);
  memset(p, kFreed, size);
  if (span->kind != SpanKind::slots || span->slot_size > kHeldMax) return p;
  const uint32_t at = state.next.fetch_add(1, std::memory_order_relaxed) % kHeldCount;
  void* oldest = state.held[at].exchange(p, std::memory_order_acq_rel);
  if (oldest != nullptr) check_still_freed(oldest, process.heap.find(oldest));
  return oldest;
}

}  // namespace llamalloc
