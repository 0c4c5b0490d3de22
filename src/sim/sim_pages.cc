// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_pages.h"

namespace llamalloc::sim {

SimPages::~SimPages() {
  if (base_) system_pages.unmap(base_, kDirectBase + DirectSpace::kBytes);
}

// Aligned so far that, in spite of address space randomisation, it is the same address in each
// run: tables of the engine hash addresses.
bool SimPages::open() {
  const uint64_t bytes = kDirectBase + DirectSpace::kBytes;
  base_ = static_cast<char*>(system_pages.reserve(bytes, size_t{1} << 44));
  if (base_ == nullptr) base_ = static_cast<char*>(system_pages.reserve(bytes, size_t{1} << 30));
  return base_ != nullptr;
}

void* SimPages::reserve(size_t bytes, size_t alignment) {
  if (bytes <= low_) return at(low_ = align_down(low_ - bytes, alignment));
  const uint64_t offset = align_up(high_, alignment);
  if (bytes > kDirectBase || offset > kDirectBase - bytes) return nullptr;
  high_ = offset + bytes;
  return at(offset);
}

void SimPages::advise_huge(void* address, size_t bytes, bool huge) {
  if (!is_space(address)) return system_pages.advise_huge(address, bytes, huge);
  if (offset_of(address) >= kDirectBase) return;
  const uint64_t first = offset_of(address) >> kHugePageShift;
  for (uint64_t i = 0; i < bytes >> kHugePageShift; ++i)
    if (!huge || first + i < ledger.page_count()) ledger.keep_small(first + i, !huge);
}

bool SimPages::discard(void* address, size_t bytes) {
  if (!is_space(address)) return system_pages.discard(address, bytes);
  const uint64_t first = offset_of(address) >> kHugePageShift;
  for (uint64_t i = 0; i < bytes >> kHugePageShift; ++i) ledger.discard(first + i);
  if (bytes < kHugePageSize) ledger.discard_part(offset_of(address), bytes);
  return true;
}

void* SimPages::map(size_t bytes, size_t alignment) {
  if (alignment <= kSmallPage) return system_pages.map(bytes, alignment);
  const uint64_t offset = direct.take(bytes);
  if (offset == kNoAddress) return nullptr;
  return at(offset);
}

bool SimPages::unmap(void* address, size_t bytes) {
  if (!is_space(address)) return system_pages.unmap(address, bytes);
  direct.give(offset_of(address), bytes);
  return true;
}

void* SimPages::remap(void* address, size_t old_bytes, size_t new_bytes) {
  if (DirectSpace::same_room(old_bytes, new_bytes)) {
    direct.change(old_bytes, new_bytes);
    return address;
  }
  const uint64_t offset = direct.take(new_bytes);
  if (offset == kNoAddress) return nullptr;
  direct.give(offset_of(address), old_bytes);
  return at(offset);
}

}  // namespace llamalloc::sim
