// SPDX-License-Identifier: Apache-2.0
// Size classes: the slot sizes of spans, and the shape of a span of each.
//
//   16, 32 .. 128, then eight steps a doubling up to 32 KiB: 72 classes, the buckets of
//   base/size_bucket.h. A step is at most 1/8 of the size below it, so rounding wastes under 12.5 %
//   (6 % on average over uniform sizes).
//
// A span takes the fewest blocks that lose at most 1/32 of it to the rest behind the last slot and
// hold eight slots (four above 4 KiB).
// Invariants: slots <= 1024 (16 words of the free map); every offset divides exactly by
// offset * magic >> 40 (proved for all offsets of a span in size_class_test.cc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/size_bucket.h"
#include "base/units.h"

namespace llamalloc {

inline constexpr size_t kSmallMax = 32768;
inline constexpr int kSizeClasses = 8 + 8 * 8;
inline constexpr int kMagicShift = 40;

struct SizeClassRow {
  uint32_t size = 0;    // bytes of a slot
  uint16_t blocks = 0;  // of a span
  uint16_t slots = 0;
  uint64_t magic = 0;  // ceil(2^40 / size)
  uint16_t claim = 0;  // slots that a thread takes at once: up to 8 KiB
};

namespace internal {

constexpr SizeClassRow shape_of(uint32_t size) {
  const uint32_t least = size <= 4096 ? 8 : 4;
  uint32_t blocks = 2;
  for (;; ++blocks) {
    const uint32_t bytes = blocks * kBlockSize;
    const uint32_t slots = bytes / size;
    if (slots >= least && bytes - slots * size <= bytes / 32) break;
  }
  SizeClassRow row;
  row.size = size;
  row.blocks = static_cast<uint16_t>(blocks);
  row.slots = static_cast<uint16_t>(blocks * kBlockSize / size);
  row.magic = ((uint64_t{1} << kMagicShift) + size - 1) / size;
  const uint32_t claim = 8192 / size;
  row.claim = static_cast<uint16_t>(claim < 1 ? 1 : claim > 64 ? 64 : claim);
  return row;
}

constexpr std::array<SizeClassRow, kSizeClasses> make_size_classes() {
  std::array<SizeClassRow, kSizeClasses> rows;
  uint64_t size = 0;
  for (auto& row : rows) {
    size = size_bucket(size + 1);
    row = shape_of(static_cast<uint32_t>(size));
  }
  return rows;
}

constexpr std::array<uint8_t, kSmallMax / 16 + 1> make_class_index() {
  std::array<uint8_t, kSmallMax / 16 + 1> index{};
  const auto rows = make_size_classes();
  int c = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    while (rows[c].size < i * 16) ++c;
    index[i] = static_cast<uint8_t>(c);
  }
  return index;
}

}  // namespace internal

inline constexpr auto kSizeClassRows = internal::make_size_classes();
inline constexpr auto kClassIndex = internal::make_class_index();
static_assert(kSizeClassRows[0].size == 16 && kSizeClassRows[0].slots == 1024);
static_assert(kSizeClassRows[kSizeClasses - 1].size == kSmallMax);

// The class of a size up to kSmallMax.
constexpr int size_class_of(size_t size) {
  return kClassIndex[(size + 15) >> 4];
}

}  // namespace llamalloc
