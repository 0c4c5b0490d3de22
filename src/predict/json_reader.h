// SPDX-License-Identifier: Apache-2.0
// A strict pull reader for JSON (RFC 8259): the caller asks for what must come next. It never
// recurses and never allocates, so hostile text costs one pass at most.
//
//   {"a": [1, 2]}   consume('{') string() consume(':') consume('[') unsigned_integer() ...
//
// A call that returns false leaves the position where the fault is; the text is then unreadable.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

class JsonReader {
 public:
  JsonReader(const char* text, size_t size) : cursor_(text), start_(text), limit_(text + size) {}

  // Takes the punctuation mark `c` if it comes next.
  bool consume(char c);
  // A string, decoded to UTF-8 and terminated by 0; false if it does not fit into `room` bytes.
  // A null `out` skips a string of any length. `length`, if not null: bytes without the 0.
  bool string(char* out, size_t room, size_t* length = nullptr);
  // A number of digits only, without leading zero, at most 2^64 - 1.
  bool unsigned_integer(uint64_t* out);
  // Any number, as its text.
  bool number(char* out, size_t room);
  // Nothing but white space is left.
  bool at_end();

  size_t position() const { return static_cast<size_t>(cursor_ - start_); }

 private:
  void skip_space();
  bool escape(uint32_t* code_point);
  bool hex4(uint32_t* out);

  const char* cursor_;
  const char* start_;
  const char* limit_;
};

}  // namespace llamalloc
