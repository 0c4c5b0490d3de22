// SPDX-License-Identifier: Apache-2.0
// The buffer of a ByteSink: collects written bytes and delivers them in full buffers.
#pragma once

#include <cstddef>
#include <cstring>

namespace llamalloc {

// deliver(data, bytes) writes all bytes; false on an error, after which it is not called again.
template <size_t kRoom>
class ByteBuffer {
 public:
  template <typename Deliver>
  bool append(const void* data, size_t bytes, const Deliver& deliver) {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const size_t room = kRoom - used_;
      const size_t part = bytes < room ? bytes : room;
      memcpy(buffer_ + used_, from, part);
      used_ += part;
      from += part;
      bytes -= part;
      if (used_ == kRoom && !flush(deliver)) return false;
    }
    return true;
  }
  template <typename Deliver>
  bool flush(const Deliver& deliver) {
    const size_t bytes = used_;
    used_ = 0;
    return bytes == 0 || deliver(buffer_, bytes);
  }
  void clear() { used_ = 0; }

 private:
  size_t used_ = 0;
  char buffer_[kRoom];
};

}  // namespace llamalloc
