// SPDX-License-Identifier: Apache-2.0
// std::string allocates for both kinds, inside libstdc++.so. The callers differ.
#include <new>
#include <string>

#include "../load.h"

namespace {

// The characters of a string that is never destroyed.
inline void* characters(size_t size) {
  alignas(std::string) unsigned char place[sizeof(std::string)];
  auto* text = new (place) std::string;
  text->reserve(size - 1);  // one more for the zero
  return text->data();
}

KEPT void* request_text(size_t size) {
  return stamped(characters(size), 2, size);
}
KEPT void* session_name(size_t size) {
  return stamped(characters(size), 3, size);
}

}  // namespace

KEPT void* make(Kind kind, size_t size) {
  return opaque(kind == Kind::survivor ? session_name(size) : request_text(size));
}

void release(void* object) {
  ::operator delete(object);
}
