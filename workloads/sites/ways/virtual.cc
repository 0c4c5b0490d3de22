// SPDX-License-Identifier: Apache-2.0
// A virtual factory. One call instruction creates both kinds; the implementations differ.
#include "../load.h"

namespace {

struct Factory {
  virtual void* create(size_t size) = 0;
};
struct Requests final : Factory {
  KEPT void* create(size_t size) override { return stamped(std::malloc(size), 2, size); }
};
struct Sessions final : Factory {
  KEPT void* create(size_t size) override { return stamped(std::malloc(size), 3, size); }
};

KEPT void* create_by(Factory& factory, size_t size) {
  return stamped(factory.create(size), 1, size);
}

Requests requests;
Sessions sessions;

}  // namespace

KEPT void* make(Kind kind, size_t size) {
  Factory* factory = &requests;
  if (kind == Kind::survivor) factory = &sessions;
  return create_by(*factory, size);
}

void release(void* object) {
  std::free(object);
}
