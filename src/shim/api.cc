// SPDX-License-Identifier: Apache-2.0
// The functions of include/llamalloc/llamalloc.h.
#include "llamalloc/llamalloc.h"

#include <cerrno>
#include <cstring>

#include "os/byte_sink.h"
#include "runtime/output.h"
#include "runtime/values.h"
#include "shim/call_site.h"

namespace {

class BufferSink final : public llamalloc::ByteSink {
 public:
  BufferSink(char* buffer, size_t room) : buffer_(buffer), room_(room) {}
  bool write(const void* data, size_t bytes) override {
    const size_t left = used_ + 1 < room_ ? room_ - 1 - used_ : 0;
    memcpy(buffer_ + used_, data, bytes < left ? bytes : left);
    used_ += bytes < left ? bytes : left;
    total_ += bytes;
    return true;
  }
  size_t finish() {
    if (room_ > 0) buffer_[used_] = 0;
    return total_;
  }

 private:
  char* buffer_;
  size_t room_;
  size_t used_ = 0;
  size_t total_ = 0;
};

}  // namespace

extern "C" {

LLAMALLOC_EXPORT const char* llamalloc_version(void) {
  return LLAMALLOC_VERSION;
}

LLAMALLOC_EXPORT int llamalloc_get(const char* name, void* out, size_t* bytes) {
  llamalloc::Options::Value value;
  if (!llamalloc::read_value(name, &value)) return ENOENT;
  const size_t room = *bytes;
  *bytes = value.text != nullptr ? strlen(value.text) + 1 : sizeof(value.number);
  if (room < *bytes) return ERANGE;
  memcpy(out, value.text != nullptr ? value.text : static_cast<const void*>(&value.number), *bytes);
  // A text may have become another one since its length was taken.
  if (value.text != nullptr) static_cast<char*>(out)[*bytes - 1] = 0;
  return 0;
}

LLAMALLOC_EXPORT int llamalloc_set(const char* name, const char* value) {
  return llamalloc::change_option(name, value);
}

LLAMALLOC_EXPORT int llamalloc_act(const char* name, const char* argument) {
  return llamalloc::act(name, argument);
}

LLAMALLOC_EXPORT const char* llamalloc_tag(const char* tag) {
  return llamalloc::exchange_tag(tag);
}

LLAMALLOC_EXPORT size_t llamalloc_stats_json(char* buffer, size_t room) {
  BufferSink sink(buffer, room);
  llamalloc::write_stats_json(sink);
  return sink.finish();
}

}  // extern "C"
