// SPDX-License-Identifier: Apache-2.0
// Size classes: the slot sizes of spans, and the shape of a span of each.
//
//   16, 32 .. 128, then eight classes for each doubling up to 256 KiB, and two for a page with a
//   header: 98 classes. Up to 32 KiB the others are the buckets of base/size_bucket.h. A step is at
//   most 1/8 of the size below it, so rounding wastes under 12.5 % (6 % on average over uniform
//   sizes).
//
// A span has the fewest blocks that hold eight slots (four above 4 KiB, one above 32 KiB) and leave
// at most 1/32 of the span unused behind the last slot.
// Invariants: slots <= 1024 (16 words of the free map); for every offset in a span the high half of
// offset * magic is the slot that it lies in, and the low half is below magic exactly where a slot
// starts (Lemire et al. 2019, "Faster remainder by direct computation"; proved for all offsets of a
// span in size_class_test.cc).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/size_bucket.h"
#include "base/units.h"

namespace llamalloc {

inline constexpr size_t kSmallMax = size_t{256} << 10;
inline constexpr size_t kTableMax = size_t{32} << 10;  // sizes covered by the first table
inline constexpr int kSizeClasses = 8 + 8 * 11 + 2;
inline constexpr int kTableClasses = 8 + 8 * 8 + 2;
// What servers cache: 4,096 bytes and what describes them, in one object. Squid asks for 4,136
// bytes, SQLite for 4,368.
inline constexpr uint32_t kPagesWithHeader[] = {4096 + 64, 4096 + 272};

struct SizeClassRow {
  uint32_t size = 0;    // bytes of a slot
  uint16_t blocks = 0;  // of a span
  uint16_t slots = 0;
  uint64_t magic = 0;  // ceil(2^64 / size)
};

namespace internal {

constexpr SizeClassRow shape_of(uint32_t size) {
  const uint32_t least = size <= 4096 ? 8 : size <= kTableMax ? 4 : 1;
  uint32_t blocks = 1 + (size - 1) / kBlockSize;
  if (blocks < 2) blocks = 2;
  for (;; ++blocks) {
    const uint32_t bytes = blocks * kBlockSize;
    const uint32_t slots = bytes / size;
    if (slots >= least && bytes - slots * size <= bytes / 32) break;
  }
  SizeClassRow row;
  row.size = size;
  row.blocks = static_cast<uint16_t>(blocks);
  row.slots = static_cast<uint16_t>(blocks * kBlockSize / size);
  row.magic = ~uint64_t{0} / size + 1;
  return row;
}

constexpr std::array<SizeClassRow, kSizeClasses> make_size_classes() {
  std::array<SizeClassRow, kSizeClasses> rows;
  uint32_t size = 0;
  const uint32_t* between = kPagesWithHeader;
  for (auto& row : rows) {
    const uint32_t step = size < 128 ? 16 : std::bit_floor(size) / 8;
    const bool is_next = between != std::end(kPagesWithHeader) && *between < size + step;
    row = shape_of(is_next ? * between++ : size += step);
  }
  return rows;
}

constexpr std::array<uint8_t, kTableMax / 16 + 1> make_class_index() {
  std::array<uint8_t, kTableMax / 16 + 1> index{};
  const auto rows = make_size_classes();
  int c = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    while (rows[c].size < i * 16) ++c;
    index[i] = static_cast<uint8_t>(c);
  }
  return index;
}

// Beyond the first table: by 4 KiB, the least step between the sizes there.
inline constexpr int kMediumShift = 12;

constexpr std::array<uint8_t, (kSmallMax >> kMediumShift)> make_medium_index() {
  std::array<uint8_t, (kSmallMax >> kMediumShift)> index{};
  const auto rows = make_size_classes();
  int c = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    while (rows[c].size < (i + 1) << kMediumShift) ++c;
    index[i] = static_cast<uint8_t>(c);
  }
  return index;
}

}  // namespace internal

inline constexpr auto kSizeClassRows = internal::make_size_classes();
inline constexpr auto kClassIndex = internal::make_class_index();
inline constexpr auto kMediumIndex = internal::make_medium_index();
static_assert(kSizeClassRows[0].size == 16 && kSizeClassRows[0].slots == 1024);
static_assert(kSizeClassRows[kTableClasses - 1].size == kTableMax);
static_assert(kSizeClassRows[kSizeClasses - 1].size == kSmallMax);

// The class of a size up to kTableMax.
constexpr int table_class_of(size_t size) {
  return kClassIndex[(size + 15) >> 4];
}

// The class of a size above kTableMax, up to kSmallMax.
constexpr int medium_class_of(size_t size) {
  return kMediumIndex[(size - 1) >> internal::kMediumShift];
}

// The class of a size up to kSmallMax.
constexpr int size_class_of(size_t size) {
  return __builtin_expect(size <= kTableMax, 1) ? table_class_of(size) : medium_class_of(size);
}

}  // namespace llamalloc
