// SPDX-License-Identifier: Apache-2.0
#include "profile/gzip_sink.h"

#include <algorithm>

#include "base/crc32.h"

namespace llamalloc {
namespace {

constexpr size_t kLargestBlock = 65535;

}  // namespace

bool GzipSink::begin() {
  // Magic, deflate, no flags, no time, no extra flags, Unix.
  constexpr uint8_t kHeader[10] = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3};
  begun_ = true;
  return out_.write(kHeader, sizeof(kHeader));
}

bool GzipSink::block(const void* data, size_t bytes, bool last) {
  const uint8_t low = static_cast<uint8_t>(bytes), high = static_cast<uint8_t>(bytes >> 8);
  const uint8_t head[5] = {last, low, high, static_cast<uint8_t>(~low),
                           static_cast<uint8_t>(~high)};
  return out_.write(head, sizeof(head)) && (bytes == 0 || out_.write(data, bytes));
}

bool GzipSink::write(const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  good_ = good_ && (begun_ || begin());
  crc_ = crc32(crc_, data, bytes);
  size_ += static_cast<uint32_t>(bytes);
  while (bytes > 0 && good_) {
    const size_t part = std::min(bytes, kLargestBlock);
    good_ = block(from, part, false);
    from += part;
    bytes -= part;
  }
  return good_;
}

bool GzipSink::finish() {
  good_ = good_ && (begun_ || begin()) && block(nullptr, 0, true);
  uint8_t trailer[8];
  for (int i = 0; i < 4; ++i) {
    trailer[i] = static_cast<uint8_t>(crc_ >> (8 * i));
    trailer[4 + i] = static_cast<uint8_t>(size_ >> (8 * i));
  }
  return good_ = good_ && out_.write(trailer, sizeof(trailer));
}

}  // namespace llamalloc
