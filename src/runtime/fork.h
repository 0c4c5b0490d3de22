// SPDX-License-Identifier: Apache-2.0
// Forks: all our locks are taken before, and free in parent and child afterwards.
//
// The C library calls prepare handlers in reverse order of registration, and the others in order of
// registration. Ours are registered first, so no other library's handler runs between ours:
//
//   others' prepare ... | ours: lock |  fork  | ours: unlock | others' parent, child ...
//
// So a handler of another library may allocate, wait for a lock that a thread inside malloc holds,
// and start and join threads. To be first, the shim defines __register_atfork. Every registration
// calls it (pthread_atfork is linked into its caller), and its first call registers our handlers
// before the caller's. A program linked with the static library registers ours in .preinit_array.
//
// Some handlers may still be registered before ours: with the C library's own function, or before
// this library was opened by dlopen. They run while our locks are held. Their allocations skip the
// locks (os/lock.h).
#pragma once

namespace llamalloc {

using ForkHandler = void();
// glibc's __register_atfork. module: the __dso_handle of the caller. 0, or an error number.
using RegisterAtfork = int(ForkHandler* prepare, ForkHandler* parent, ForkHandler* child,
                           void* module);

// The C library's own function; null in a statically linked program. Looked up once, by the first
// call: a later one could wait for the loader's lock.
RegisterAtfork* real_register_atfork();
// Once; further calls do nothing.
void register_fork_handlers();

}  // namespace llamalloc
