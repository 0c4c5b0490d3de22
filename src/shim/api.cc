// SPDX-License-Identifier: Apache-2.0
// The functions of include/llamalloc/llamalloc.h.
#include "llamalloc/llamalloc.h"

#include <cerrno>
#include <cstring>

#include "os/byte_sink.h"
#include "runtime/control.h"
#include "runtime/output.h"
#include "runtime/process.h"
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

LLAMALLOC_EXPORT int llamalloc_set(const char* name, const char* value) {
  return llamalloc::change_option(name, value) ? 0 : EINVAL;
}

LLAMALLOC_EXPORT int llamalloc_act(const char* act, const char* argument) {
  if (strcmp(act, "profile") == 0 && argument != nullptr)
    return llamalloc::act_profile(argument) ? 0 : EIO;
  if (strcmp(act, "sampling") == 0 && argument != nullptr)
    return llamalloc::act_sampling(argument) ? 0 : EINVAL;
  if (strcmp(act, "release") == 0) {
    llamalloc::process.heap.release(llamalloc::process.system.now(), 0);
    return 0;
  }
  return EINVAL;
}

LLAMALLOC_EXPORT size_t llamalloc_stats_json(char* buffer, size_t room) {
  BufferSink sink(buffer, room);
  llamalloc::write_stats_json(sink);
  return sink.finish();
}

}  // extern "C"
