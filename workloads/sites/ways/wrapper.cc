// SPDX-License-Identifier: Apache-2.0
// One function allocates for all, WRAPPERS levels deep (1 or 3). Its callers differ.
#include "../load.h"

namespace {

KEPT void* allocate(size_t size) {
  return stamped(std::malloc(size), 1, size);
}
#if WRAPPERS == 3
KEPT void* checked_allocate(size_t size) {
  return stamped(allocate(size), 4, size);
}
KEPT void* counted_allocate(size_t size) {
  return stamped(checked_allocate(size), 5, size);
}
#else
void* counted_allocate(size_t size) {
  return allocate(size);
}
#endif

KEPT void* request_buffer(size_t size) {
  return stamped(counted_allocate(size), 2, size);
}
KEPT void* session_record(size_t size) {
  return stamped(counted_allocate(size), 3, size);
}

}  // namespace

KEPT void* make(Kind kind, size_t size) {
  return opaque(kind == Kind::survivor ? session_record(size) : request_buffer(size));
}

void release(void* object) {
  std::free(object);
}
