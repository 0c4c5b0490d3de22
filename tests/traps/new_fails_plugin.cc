// SPDX-License-Identifier: Apache-2.0
// Whether a `new` that cannot be served throws bad_alloc or gives null, with a new-handler that
// throws and without one.
#include <cstddef>
#include <new>

namespace {

constexpr size_t kAlignment = 64;
volatile size_t much = size_t{1} << 60;
int handled = 0;

void handle() {
  ++handled;
  throw std::bad_alloc();
}

bool throws_bad_alloc() {
  try {
    operator delete(operator new(much));
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

bool gives_null() {
  return operator new(much, std::nothrow) == nullptr&& operator new[](much, std::nothrow) ==
         nullptr&& operator new(much, std::align_val_t{kAlignment}, std::nothrow) == nullptr;
}

}  // namespace

// What goes wrong; null: nothing.
extern "C" const char* fails_wrongly() {
  if (!throws_bad_alloc()) return "no bad_alloc";
  if (!gives_null()) return "not null";
  std::set_new_handler(handle);
  if (!throws_bad_alloc() || handled != 1) return "no bad_alloc from the handler";
  if (!gives_null() || handled != 4) return "not null, though the handler throws";
  std::set_new_handler(nullptr);
  return nullptr;
}
