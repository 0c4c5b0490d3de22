// SPDX-License-Identifier: Apache-2.0
// Both mallocs in one function: two call sites, one name.
#include "../load.h"

KEPT void* make(Kind kind, size_t size) {
  if (kind == Kind::survivor) {
    return stamped(opaque(std::malloc(size)), 3, size);  // opaque: the two calls are not merged
  }
  return stamped(std::malloc(size), 2, size);
}

void release(void* object) {
  std::free(object);
}
