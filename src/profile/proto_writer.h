// SPDX-License-Identifier: Apache-2.0
// Writes the parts of the protocol buffers wire format that a pprof profile needs: varints, strings
// and nested messages (protobuf.dev/programming-guides/encoding).
//
//   open(2)      [12]                     remembers where the content begins
//   number(1, 7) [12][08 07]
//   close()      [12][02][08 07]          puts the length in by moving the content up
//
// We wrote our own because protozero's headers do not compile without exceptions. This one needs
// neither std::string nor exceptions. The owner empties the fixed buffer into a sink between two
// top-level fields. If a field does not fit, ok() stays false.
#pragma once

#include <cstdint>
#include <cstring>

namespace llamalloc {

class ProtoWriter {
 public:
  ProtoWriter(uint8_t* buffer, size_t room) : buffer_(buffer), room_(room) {}

  // Where a message's content starts; pass it to close().
  struct Mark {
    size_t content;
  };
  Mark open(uint32_t field) {
    varint(field << 3 | kLengthDelimited);
    return {used_};
  }
  void close(Mark mark) {
    const size_t length = used_ - mark.content;
    const size_t prefix = varint_size(length);
    if (!fits(prefix)) return;
    memmove(buffer_ + mark.content + prefix, buffer_ + mark.content, length);
    used_ = mark.content;
    varint(length);
    used_ += length;
  }

  void number(uint32_t field, uint64_t value) {
    varint(field << 3 | kVarint);
    varint(value);
  }
  void text(uint32_t field, const char* bytes, size_t length) {
    varint(field << 3 | kLengthDelimited);
    varint(length);
    if (!fits(length)) return;
    memcpy(buffer_ + used_, bytes, length);
    used_ += length;
  }
  // A bare value: an element of a packed field that is open.
  void varint(uint64_t value) {
    if (!fits(varint_size(value))) return;
    for (; value >= 0x80; value >>= 7) buffer_[used_++] = static_cast<uint8_t>(value | 0x80);
    buffer_[used_++] = static_cast<uint8_t>(value);
  }

  bool ok() const { return ok_; }
  const uint8_t* data() const { return buffer_; }
  size_t size() const { return used_; }
  void clear() { used_ = 0; }  // no message is open

 private:
  enum WireType : uint32_t { kVarint = 0, kLengthDelimited = 2 };

  static size_t varint_size(uint64_t value) {
    size_t n = 1;
    for (; value >= 0x80; value >>= 7) ++n;
    return n;
  }
  bool fits(size_t bytes) { return ok_ = ok_ && bytes <= room_ - used_; }

  uint8_t* const buffer_;
  const size_t room_;
  size_t used_ = 0;
  bool ok_ = true;
};

}  // namespace llamalloc
