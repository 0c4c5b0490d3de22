// SPDX-License-Identifier: Apache-2.0
// gzip framing (RFC 1952) around stored deflate blocks (RFC 1951, 3.2.4): a valid .gz,
// uncompressed.
//
//   header 10 | 00 LEN ~LEN bytes | 00 LEN ~LEN bytes | ... | 01 0000 FFFF | CRC-32 | SIZE mod 2^32
//
// Not compressed because a zlib in DT_NEEDED would be loaded into every process that we are
// preloaded into, and Debian's libz.a is not position independent. `llamalloc record` compresses
// the file afterwards. Each write makes a block of its own (5 bytes): write in large pieces.
#pragma once

#include <cstdint>

#include "os/byte_sink.h"

namespace llamalloc {

class GzipSink final : public ByteSink {
 public:
  explicit GzipSink(ByteSink& out) : out_(out) {}
  bool write(const void* data, size_t bytes) override;
  // Last call: closes the stream (not the sink behind it).
  bool finish();

 private:
  bool begin();
  bool block(const void* data, size_t bytes, bool last);

  ByteSink& out_;
  bool begun_ = false;
  bool good_ = true;
  uint32_t crc_ = 0;
  uint32_t size_ = 0;
};

}  // namespace llamalloc
