// SPDX-License-Identifier: Apache-2.0
#include "os/stdio_lock.h"

#include <sys/single_threaded.h>

#include <cstdint>

// Exported by glibc since 2.2.5, in no header since 2.28. Weak: other C libraries have none.
extern "C" {
__attribute__((weak)) void _IO_list_lock();
__attribute__((weak)) void _IO_list_unlock();
}

namespace llamalloc {
namespace {

// How often the forking thread locked it: a handler after ours may start the second thread.
constinit thread_local uint32_t locked __attribute__((tls_model("initial-exec"))) = 0;

}  // namespace

void lock_stdio_list() {
  // By the same test fork decides whether it resets the lock in the child.
  if (__libc_single_threaded || &_IO_list_lock == nullptr || &_IO_list_unlock == nullptr) return;
  _IO_list_lock();
  ++locked;
}

void unlock_stdio_list() {
  if (locked == 0) return;
  --locked;
  _IO_list_unlock();
}

void forget_stdio_list() {
  locked = 0;
}

}  // namespace llamalloc
