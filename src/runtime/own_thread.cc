// SPDX-License-Identifier: Apache-2.0
#include "runtime/own_thread.h"

#include <pthread.h>
#include <signal.h>

#include "os/static_tls.h"
#include "runtime/dynamic_symbol.h"

namespace llamalloc {
namespace {

constexpr size_t kLibraryStack = 64 * 1024;  // of glibc, where it does not say; 18 KiB in 2.36

// What the C library and static thread-local variables take of a thread's stack. glibc tells it to
// runtimes that make threads with stacks of their own size (OpenJDK and Rust's library ask in the
// same way); in a program linked statically it cannot be asked.
size_t least_stack(const pthread_attr_t& attributes) {
  using GetLeast = size_t(const pthread_attr_t*);
  if (GetLeast* get = first_function<GetLeast>("__pthread_get_minstack")) return get(&attributes);
  return thread_local_bytes() + kLibraryStack;
}

}  // namespace

bool start_thread(void* (*main)(void*), size_t stack_bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes + least_stack(attributes));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool made = pthread_create(&thread, &attributes, main, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return made;
}

}  // namespace llamalloc
