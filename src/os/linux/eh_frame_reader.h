// SPDX-License-Identifier: Apache-2.0
// Bounded reading of DWARF bytes: past the end every read gives 0 and ok() is false for good.
#pragma once

#include <cstdint>
#include <cstring>

namespace llamalloc {

// Pointer encodings (LSB core 5.0, section 10.5.1): low nibble the format, high nibble the base.
inline constexpr uint8_t kEncodingOmit = 0xff;

class EhReader {
 public:
  EhReader(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  bool ok() const { return ok_; }
  bool more() const { return at_ < end_; }
  const uint8_t* at() const { return at_; }

  template <typename T>
  T read() {
    T value{};
    if (!has(sizeof(T))) return value;
    memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  void skip(uint64_t bytes) {
    if (has(bytes)) at_ += bytes;
  }
  uint64_t uleb() {
    uint64_t value = 0;
    for (int shift = 0; more(); shift += 7) {
      const uint8_t byte = *at_++;
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return ok_ = false, 0;
  }
  int64_t sleb() {
    uint64_t value = 0;
    for (int shift = 0; more();) {
      const uint8_t byte = *at_++;
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if (byte >= 0x80) continue;
      if (shift < 64 && (byte & 0x40)) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
    return ok_ = false, 0;
  }
  // A pointer of absolute or pc-relative base; others are not ok.
  uint64_t pointer(uint8_t encoding) {
    const uint64_t here = reinterpret_cast<uintptr_t>(at_);
    const uint64_t value = fixed(encoding & 0x0f);
    switch (encoding & 0x70) {
      case 0x00:
        return value;
      case 0x10:
        return here + value;
      default:
        return ok_ = false, 0;
    }
  }
  // A value of a format of pointers, without base.
  uint64_t fixed(uint8_t format) {
    switch (format) {
      case 0x00:
      case 0x04:
      case 0x0c:
        return read<uint64_t>();
      case 0x01:
        return uleb();
      case 0x02:
        return read<uint16_t>();
      case 0x03:
        return read<uint32_t>();
      case 0x09:
        return static_cast<uint64_t>(sleb());
      case 0x0a:
        return static_cast<uint64_t>(int64_t{read<int16_t>()});
      case 0x0b:
        return static_cast<uint64_t>(int64_t{read<int32_t>()});
      default:
        return ok_ = false, 0;
    }
  }

 private:
  bool has(uint64_t bytes) {
    if (static_cast<uint64_t>(end_ - at_) >= bytes) return true;
    at_ = end_;
    return ok_ = false;
  }

  const uint8_t* at_;
  const uint8_t* end_;
  bool ok_ = true;
};

}  // namespace llamalloc
