// SPDX-License-Identifier: Apache-2.0
#include "sim/product_policy.h"

namespace llamalloc::sim {
namespace {

// As in runtime/resize.cc.
bool fits_in_place(size_t have, size_t want) {
  return want <= have && (want >= have / 2 || have <= 64);
}

// The slot size that serves an aligned request (runtime/resize.cc); 0: no slot does.
uint64_t slot_size_for(uint64_t size, uint64_t alignment) {
  if (alignment <= 16) return size <= kSmallMax ? size : 0;
  if (alignment > kBlockSize || size > kSmallMax) return 0;
  int c = size_class_of(size < alignment ? alignment : size);
  while (c < kSizeClasses && kSizeClassRows[c].size % alignment != 0) ++c;
  return c < kSizeClasses ? kSizeClassRows[c].size : 0;
}

}  // namespace

std::unique_ptr<ProductPolicy> ProductPolicy::make() {
  std::unique_ptr<ProductPolicy> made(new ProductPolicy);
  return made->pages_.open() ? std::move(made) : nullptr;
}

uint64_t ProductPolicy::allocate(const Request& request) {
  pages_.time = request.now;
  const char* p = place(request);
  return p ? pages_.offset_of(p) : kNoAddress;
}

ThreadCache& ProductPolicy::cache_of(uint32_t thread) {
  if (thread >= caches_.size()) caches_.resize(thread + 1u);
  if (caches_[thread] == nullptr) caches_[thread] = std::make_unique<ThreadCache>(heap_);
  return *caches_[thread];
}

char* ProductPolicy::place(const Request& request) {
  const uint64_t alignment = request.alignment();
  const uint64_t slot = slot_size_for(request.size, alignment);
  const PageGroup group = group_of(request.lifetime);
  if (slot != 0) {
    const int size_class = size_class_of(slot);
    char* p = cache_of(request.thread).take(bin_of(group, size_class, false), caches_.size());
    if (p) rounding_ += kSizeClassRows[size_class].size - request.size;
    return p;
  }
  const bool over_aligned = alignment > kBlockSize;
  Span* span = heap_.allocate(request.size, over_aligned ? alignment : 1,
                              over_aligned ? PageGroup::unknown : group, false);
  if (span == nullptr) return nullptr;
  rounding_ += taken_for(*span) - request.size;
  return span->base;
}

void ProductPolicy::free(uint64_t address, uint64_t bytes, uint32_t thread, Nanos now) {
  pages_.time = now;
  char* p = pages_.at(address);
  Span* span = heap_.find(p);
  CHECK(span != nullptr);
  rounding_ -= taken_for(*span) - bytes;
  if (span->kind == SpanKind::slots)
    cache_of(thread).put(span->bin, p, caches_.size());
  else
    heap_.deallocate(span);
}

uint64_t ProductPolicy::resize(uint64_t address, uint64_t bytes, const Request& request) {
  pages_.time = request.now;
  Span* span = heap_.find(pages_.at(address));
  CHECK(span != nullptr);
  const uint64_t before = taken_for(*span);
  if (span->kind == SpanKind::slots) {
    if (!fits_in_place(span->object_size(), request.size))
      return Policy::resize(address, bytes, request);
    rounding_ += bytes - request.size;
    return address;
  }
  void* resized = heap_.resize(span, request.size);
  if (resized == nullptr) return Policy::resize(address, bytes, request);
  rounding_ += taken_for(*span) - request.size;
  rounding_ -= before - bytes;
  return pages_.offset_of(resized);
}

void ProductPolicy::advance(Nanos now) {
  pages_.time = now;
  if (now - last_house_ >= kHousekeeping) {
    last_house_ = now;
    for (const auto& cache : caches_)
      if (cache) cache->call_in();
    promotions_ += heap_.promote_expired(now);
  }
  heap_.collapse_first_pages();
  heap_.release(now - kReleaseDelay, 0);
}

Losses ProductPolicy::losses() {
  Losses losses;
  for (int g = 0; g < kPageGroups; ++g) {
    const GroupCounts counts = heap_.count(static_cast<PageGroup>(g));
    losses.free_slots += counts.free_slots;
    losses.free_blocks += counts.free_blocks;
  }
  losses.rounding = rounding_;
  losses.empty_pages = heap_.pool_counts().empty_backed * kHugePageSize +
                       DirectSpace::backed(heap_.cached_direct_bytes());
  losses.metadata = arena_.resident_bytes() + heap_.map_bytes();
  for (const auto& cache : caches_) {
    if (cache == nullptr) continue;
    losses.thread_caches += cache->held_bytes();
    losses.metadata += cache->table_bytes();
  }
  return losses;
}

}  // namespace llamalloc::sim
