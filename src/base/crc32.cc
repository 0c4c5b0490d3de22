// SPDX-License-Identifier: Apache-2.0
#include "base/crc32.h"

#include <array>

namespace llamalloc {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t n = 0; n < 256; ++n) {
    uint32_t c = n;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? 0xEDB88320u : 0);
    table[n] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

}  // namespace

uint32_t crc32(uint32_t crc, const void* data, size_t bytes) {
  const uint8_t* from = static_cast<const uint8_t*>(data);
  uint32_t c = ~crc;
  for (size_t i = 0; i < bytes; ++i) c = kCrcTable[(c ^ from[i]) & 0xFF] ^ (c >> 8);
  return ~c;
}

}  // namespace llamalloc
