// SPDX-License-Identifier: Apache-2.0
// A virtual factory with one implementation. The callers differ.
#include "../load.h"

namespace {

struct Factory {
  virtual void* create(size_t size) = 0;
};
struct Plain final : Factory {
  KEPT void* create(size_t size) override { return stamped(std::malloc(size), 1, size); }
};

Plain plain;

KEPT void* request_buffer(Factory& factory, size_t size) {
  return stamped(factory.create(size), 2, size);
}
KEPT void* session_record(Factory& factory, size_t size) {
  return stamped(factory.create(size), 3, size);
}

}  // namespace

KEPT void* make(Kind kind, size_t size) {
  Factory* factory = opaque<Factory*>(&plain);
  return opaque(kind == Kind::survivor ? session_record(*factory, size)
                                       : request_buffer(*factory, size));
}

void release(void* object) {
  std::free(object);
}
