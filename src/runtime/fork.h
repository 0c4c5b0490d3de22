// SPDX-License-Identifier: Apache-2.0
// Forks: every lock of ours is taken before, and free in parent and child after.
//
// The C library runs prepare handlers in the reverse order of their registration, the others in its
// order. Ours are registered first, so that no handler of anybody else runs between ours:
//
//   others' prepare ... | ours: lock |  fork  | ours: unlock | others' parent, child ...
//
// So a handler of another library may allocate, wait for a lock that a thread inside malloc holds,
// and start and join threads. To be first, the shim stands in front of __register_atfork, through
// which every registration goes (pthread_atfork is linked into its caller), and our handlers are
// registered with the first call of it. A program linked with the static library does it from its
// .preinit_array.
//
// Handlers that are registered before ours all the same (with the C library's own function, or
// before this library was opened by dlopen) run while the locks are held. What they allocate passes
// the locks (os/lock.h).
#pragma once

namespace llamalloc {

using ForkHandler = void();
// glibc's __register_atfork. module: the __dso_handle of the caller. 0, or an error number.
using RegisterAtfork = int(ForkHandler* prepare, ForkHandler* parent, ForkHandler* child,
                           void* module);

// The C library's own; null: in a program linked statically.
RegisterAtfork* real_register_atfork();
// Once; further calls do nothing.
void register_fork_handlers();

}  // namespace llamalloc
