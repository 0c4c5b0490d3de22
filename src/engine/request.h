// SPDX-License-Identifier: Apache-2.0
// The parameters of an allocation; which size class, run or mapping serves it; and whether a resize
// can stay in place.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/call_site.h"
#include "heap/heap.h"

namespace llamalloc {

inline constexpr size_t kLargestSize = PTRDIFF_MAX;
inline constexpr size_t kAddresses = size_t{1} << 47;  // that a process has
// Hotness of an allocation without a hint (placement/hint.h).
inline constexpr uint8_t kNoHint = 255;

struct Request {
  size_t size;  // at most kLargestSize
  CallSite site{};
  size_t alignment = 1;       // a power of two
  bool counted = false;       // the fast path has already subtracted the size from the countdown
  bool grows = false;         // realloc makes it larger: heap/heap.h, may_grow_again
  uint8_t hotness = kNoHint;  // 0 (cold) to 255 (hot)
};

// Too large for any address space: refused before rounding overflows.
constexpr bool is_absurd(size_t size, size_t alignment) {
  return size > kLargestSize || alignment > kLargestSize / 2 || size > kLargestSize - alignment;
}

// The first class that holds the size and whose slots all have the alignment; kSizeClasses: none.
// Spans start at a multiple of the block size. So slots are aligned if their size is a multiple of
// the alignment. size: at most kSmallMax; alignment: at most kBlockSize.
constexpr int aligned_class_of(size_t size, size_t alignment) {
  int c = size_class_of(size < alignment ? alignment : size);
  while (c < kSizeClasses && kSizeClassRows[c].size % alignment != 0) ++c;
  return c;
}

// The class of the slots that serve a request; kSizeClasses: a run or a mapping does.
constexpr int class_serving(size_t size, size_t alignment) {
  if (size > kSmallMax || alignment > kBlockSize) return kSizeClasses;
  return alignment <= 16 ? size_class_of(size) : aligned_class_of(size, alignment);
}

// Shrinking below half of the slot moves the object; above, it stays where it is.
constexpr bool fits_in_place(size_t have, size_t want) {
  return want <= have && (want >= have / 2 || have <= 64);
}

// What stands for the size in the key of a calling context: the size class, and beyond those the
// power of two.
constexpr int key_class_of(size_t size) {
  return size <= kSmallMax ? size_class_of(size) : kSizeClasses + std::bit_width(size - 1);
}

// The usable size of such an allocation, unhardened; 0: it would fail.
constexpr size_t usable_size_of(size_t size, size_t alignment) {
  if (is_absurd(size, alignment) || size > kAddresses) return 0;
  const int c = class_serving(size, alignment);
  if (c < kSizeClasses) return kSizeClassRows[c].size;
  if (!fits_run(size, alignment)) return direct_size(size);
  return align_up(size < kLeastRun ? kLeastRun : size, kBlockSize);
}

}  // namespace llamalloc
