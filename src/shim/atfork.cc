// SPDX-License-Identifier: Apache-2.0
// The shared libraries only: the function behind pthread_atfork (runtime/fork.h).
#include <cerrno>

#include "runtime/fork.h"
#include "shim/call_site.h"

using namespace llamalloc;

extern "C" LLAMALLOC_EXPORT int __register_atfork(ForkHandler* prepare, ForkHandler* parent,
                                                  ForkHandler* child, void* module) {
  register_fork_handlers();
  RegisterAtfork* real = real_register_atfork();
  return real != nullptr ? real(prepare, parent, child, module) : ENOMEM;
}
