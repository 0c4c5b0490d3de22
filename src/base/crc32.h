// SPDX-License-Identifier: Apache-2.0
// The CRC-32 of RFC 1952, section 8: of "123456789" it is 0xCBF43926.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

// crc: 0, or the result for the bytes before.
uint32_t crc32(uint32_t crc, const void* data, size_t bytes);

}  // namespace llamalloc
