// SPDX-License-Identifier: Apache-2.0
// What the bytes of a fuzzer mean to a twin: numbers, taken from the front; 0 once there are none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool more() const { return at_ != end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  const uint8_t* rest() const { return at_; }
  uint8_t byte() { return more() ? *at_++ : 0; }
  // Below n: of one byte, or of two where n needs them.
  uint32_t below(uint32_t n) {
    uint32_t value = byte();
    if (n > 256) value |= uint32_t{byte()} << 8;
    return value % n;
  }
  bool flag() { return byte() & 1; }
  // 1 to 2^limit_log2, as many of each binary order: of two bytes.
  size_t size(uint32_t limit_log2) {
    const uint32_t order = below(limit_log2);
    const size_t least = size_t{1} << order;
    return least + ((least * byte()) >> 8) + 1;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace llamalloc
