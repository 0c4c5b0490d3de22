// SPDX-License-Identifier: Apache-2.0
// Two functions with equal code, which the linker folds into one (--icf=all). Their callers differ.
#include "../load.h"

// KEPT holds the compiler back from folding them by itself.
KEPT void* new_buffer(size_t size) {
  return stamped(std::malloc(size), 1, size);
}
KEPT void* new_record(size_t size) {
  return stamped(std::malloc(size), 1, size);
}

namespace {

KEPT void* accept_request(size_t size) {
  return stamped(new_buffer(size), 2, size);
}
KEPT void* open_session(size_t size) {
  return stamped(new_record(size), 3, size);
}

}  // namespace

KEPT void* make(Kind kind, size_t size) {
  return opaque(kind == Kind::survivor ? open_session(size) : accept_request(size));
}

void release(void* object) {
  std::free(object);
}
