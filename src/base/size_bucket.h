// SPDX-License-Identifier: Apache-2.0
// The size bucket of contracts/stack_tokens.md: how sizes are told apart in profiles and tokens.
// Worked numbers: 0 -> 16, 17 -> 32, 129 -> 144, 1000 -> 1024, 8039 -> 8192, 32769 -> 65536.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace llamalloc {

constexpr uint64_t size_bucket(uint64_t size) {
  if (size == 0) size = 1;
  if (size <= 128) return (size + 15) & ~uint64_t{15};
  if (size <= 32768) {
    const uint64_t step = uint64_t{1} << (std::bit_width(size - 1) - 1 - 3);
    return (size + step - 1) & ~(step - 1);
  }
  if (size > uint64_t{1} << 62) return uint64_t{1} << 63;
  return std::bit_ceil(size);
}
static_assert(size_bucket(129) == 144 && size_bucket(1000) == 1024 && size_bucket(32769) == 65536);

}  // namespace llamalloc
