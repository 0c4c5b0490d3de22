// SPDX-License-Identifier: Apache-2.0
// A PageSource whose heap space has no memory, since a simulation writes to no object. Tables have
// real memory. The clock shows the trace's time.
#pragma once

#include "os/pages.h"
#include "sim/direct_space.h"
#include "sim/page_ledger.h"

namespace llamalloc::sim {

// Of the address space for pages; no higher than need be, as the ledger has a row a page below.
inline constexpr uint64_t kHeapTop = uint64_t{1} << 36;

class SimPages final : public PageSource {
 public:
  SimPages() = default;
  SimPages(const SimPages&) = delete;
  SimPages& operator=(const SimPages&) = delete;
  ~SimPages();

  // False if the machine grants no address space; call it before all others.
  bool open();

  // Downwards from kHeapTop, as Linux maps: the heap prefers low addresses, so newer chunks.
  // Upwards from there when nothing is left.
  void* reserve(size_t bytes, size_t alignment) override;
  bool commit(void*, size_t) override { return true; }
  void advise_huge(void* address, size_t bytes, bool huge) override;
  bool discard(void* address, size_t bytes) override;
  // Tables have the alignment of a small page, mappings for objects a larger one.
  void* map(size_t bytes, size_t alignment) override;
  bool unmap(void* address, size_t bytes) override;
  void* remap(void* address, size_t old_bytes, size_t new_bytes) override;
  // For tables only.
  size_t resident(const void* address, size_t bytes) override {
    return system_pages.resident(address, bytes);
  }
  Nanos fetch(void* page) override {
    ledger.touch(offset_of(page), 1);
    return PageSource::fetch(page);
  }
  Nanos now() override { return time; }
  // As of the last tick of the kernel.
  Nanos now_coarse() override { return {time.n - (time.n - a_tick.n) % tick.n}; }

  uint64_t offset_of(const void* p) const {
    return static_cast<uint64_t>(static_cast<const char*>(p) - base_);
  }
  char* at(uint64_t offset) const { return base_ + offset; }

  Nanos time{};
  Nanos tick = Nanos::millis(4);  // 250 a second, as in most kernels
  Nanos a_tick{};                 // when one was, not after `time`
  PageLedger ledger;
  DirectSpace direct;

 private:
  bool is_space(const void* p) const { return offset_of(p) < kDirectBase + DirectSpace::kBytes; }

  char* base_ = nullptr;
  uint64_t low_ = kHeapTop;   // all below is free
  uint64_t high_ = kHeapTop;  // all from here to kDirectBase
};

}  // namespace llamalloc::sim
