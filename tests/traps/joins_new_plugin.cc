// SPDX-License-Identifier: Apache-2.0
// Its constructor runs under the loader's lock, and waits for a thread whose `new` fails, with a
// new-handler that gives up and without one: that may not take that lock.
#include <pthread.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kAlignment = 64;
volatile size_t much = size_t{1} << 60;

void give_up() {
  throw std::bad_alloc();
}

bool fails_rightly() {
  if (operator new(much, std::nothrow) != nullptr) return false;
  if (operator new(much, std::align_val_t{kAlignment}, std::nothrow) != nullptr) return false;
  try {
    operator delete(operator new(much));
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

void* fail(void*) {
  const bool without = fails_rightly();
  std::set_new_handler(give_up);
  const bool with = fails_rightly();
  std::set_new_handler(nullptr);
  if (!without || !with) {
    fputs("new failed wrongly\n", stderr);
    _Exit(1);
  }
  return nullptr;
}

const bool waited = [] {
  pthread_t thread;
  return pthread_create(&thread, nullptr, fail, nullptr) == 0 && pthread_join(thread, nullptr) == 0;
}();

}  // namespace
