// SPDX-License-Identifier: Apache-2.0
// Each kind has a function of its own.
#include "../load.h"

namespace {

KEPT void* request_buffer(size_t size) {
  return stamped(std::malloc(size), 2, size);
}
KEPT void* session_record(size_t size) {
  return stamped(std::malloc(size), 3, size);
}

}  // namespace

KEPT void* make(Kind kind, size_t size) {
  return opaque(kind == Kind::survivor ? session_record(size) : request_buffer(size));
}

void release(void* object) {
  std::free(object);
}
