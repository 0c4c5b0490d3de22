// SPDX-License-Identifier: Apache-2.0
// Numbers of bins: (page group, slot size, sampled or not). Bins of the first half are local: a
// thread may cache their slots. Bins of the second half are for samples.
#pragma once

#include <bit>
#include <cstddef>

#include "base/lifetime_class.h"
#include "heap/size_class.h"
#include "pages/huge_page.h"

namespace llamalloc {

inline constexpr int kLocalBins = kPageGroups * kSizeClasses;
inline constexpr int kNoLocalBin = -1;  // for objects that no thread may cache
inline constexpr int kBins = 2 * kLocalBins;
inline constexpr int kNoSpanBin = 0xffff;  // of a span that holds no slots
static_assert(kBins < kNoSpanBin);

constexpr int bin_of(PageGroup group, int size_class, bool sampled) {
  return ((sampled ? kPageGroups : 0) + static_cast<int>(group)) * kSizeClasses + size_class;
}
static_assert(static_cast<int>(PageGroup::unknown) == 0);
// The bin of the same slots in group `unknown`.
constexpr int bin_of_unknown(int bin) {
  return bin % kSizeClasses + (bin < kLocalBins ? 0 : kLocalBins);
}
constexpr PageGroup group_of_bin(int bin) {
  return static_cast<PageGroup>(bin / kSizeClasses % kPageGroups);
}
constexpr size_t slot_size_of(int bin) {
  return kSizeClassRows[bin % kSizeClasses].size;
}

// Whether spans have few of the slots, so that free ones are worth a place on a shelf (shelves.h).
constexpr bool is_large(int bin) {
  return bin < kLocalBins && bin % kSizeClasses >= kTableClasses;
}

// The class of the slot that a sampled object of a class gets. Samples of like sizes share spans:
// there are few of them, and each span takes two blocks. Slots of whole blocks hold one anyway.
constexpr int class_of_sample(int size_class) {
  constexpr uint32_t kLeast = 256, kMost = 8192;
  const uint32_t size = kSizeClassRows[size_class].size;
  if (size > kMost) return size_class;
  return size_class_of(size < kLeast ? kLeast : std::bit_ceil(size));
}

// Of the spans of a bin. There are few samples: theirs take the fewest blocks that hold a slot, so
// that sampling costs little memory.
struct SpanShape {
  uint16_t blocks, slots;
};
constexpr SpanShape shape_of_bin(int bin) {
  const SizeClassRow& shape = kSizeClassRows[bin % kSizeClasses];
  if (bin < kLocalBins) return {shape.blocks, shape.slots};
  const size_t needed = 1 + (shape.size - 1) / kBlockSize;
  const size_t blocks = needed < kLeastSpanBlocks ? kLeastSpanBlocks : needed;
  return {static_cast<uint16_t>(blocks), static_cast<uint16_t>(blocks * kBlockSize / shape.size)};
}

}  // namespace llamalloc
