// SPDX-License-Identifier: Apache-2.0
// The units of the heap, and the types that keep them apart.
//
//   huge page  2 MiB, aligned: what the system backs as one
//   block      8 KiB, 1/256 of a huge page: what spans and runs are made of
//   slot       one object inside a span
//
// A bare size_t in a header means bytes that the user asked for, or bytes where the name says so.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace llamalloc {

inline constexpr size_t kHugePageShift = 21;
inline constexpr size_t kHugePageSize = size_t{1} << kHugePageShift;
inline constexpr size_t kBlockShift = 13;
inline constexpr size_t kBlockSize = size_t{1} << kBlockShift;
inline constexpr size_t kBlocksPerHugePage = kHugePageSize / kBlockSize;
static_assert(kBlocksPerHugePage == 256);
inline constexpr size_t kSmallPage = 4096;  // what the system maps by
inline constexpr size_t kCacheLine = 64;

// A count of blocks.
struct Blocks {
  uint32_t n = 0;
  constexpr auto operator<=>(const Blocks&) const = default;
  constexpr size_t bytes() const { return size_t{n} << kBlockShift; }
  static constexpr Blocks covering(size_t bytes) {
    return {static_cast<uint32_t>((bytes + kBlockSize - 1) >> kBlockShift)};
  }
};

// Nanoseconds: a duration, or a time on the monotonic clock.
struct Nanos {
  int64_t n = 0;
  constexpr auto operator<=>(const Nanos&) const = default;
  constexpr Nanos operator+(Nanos o) const { return {n + o.n}; }
  constexpr Nanos operator-(Nanos o) const { return {n - o.n}; }
  static constexpr Nanos seconds(int64_t s) { return {s * 1'000'000'000}; }
  static constexpr Nanos millis(int64_t ms) { return {ms * 1'000'000}; }
  static constexpr Nanos max() { return {INT64_MAX}; }
};

// a - b, but not below 0.
constexpr size_t less(size_t a, size_t b) {
  return a > b ? a - b : 0;
}
constexpr size_t align_up(size_t value, size_t power_of_two) {
  return (value + power_of_two - 1) & ~(power_of_two - 1);
}
constexpr size_t align_down(size_t value, size_t power_of_two) {
  return value & ~(power_of_two - 1);
}
constexpr bool is_power_of_two(size_t value) {
  return value && (value & (value - 1)) == 0;
}

}  // namespace llamalloc
