// SPDX-License-Identifier: Apache-2.0
// A buffer of fixed size that text is printed into; what does not fit is cut.
#pragma once

#include <cstddef>

namespace llamalloc {

class Text {
 public:
  // The longest piece of a document: a huge page with objects of all sizes (stats_json.cc).
  static constexpr size_t kRoom = 8192 + 16;  // and what frames it (telemetry/http.h)

  void add(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // As a JSON string with quotes; control characters and non-ASCII bytes become '?'.
  void add_json_string(const char* text);
  void append(const char* bytes, size_t length);
  void clear() { used_ = 0; }
  const char* data() const { return data_; }
  size_t size() const { return used_; }

 private:
  size_t used_ = 0;
  char data_[kRoom];
};

}  // namespace llamalloc
