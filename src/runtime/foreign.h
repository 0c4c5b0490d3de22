// SPDX-License-Identifier: Apache-2.0
// Objects of another allocator that are passed to our free.
//   jemalloc       what the program made by mallocx: jemalloc.h
//   the C library  the program found its malloc by dlsym on a handle, or in a library opened with
//                  RTLD_DEEPBIND where deep_binding.h had no effect
// We pass them on to the free of whoever made them. The opposite case, an object of ours passed to
// the C library's free, cannot be handled: the C library aborts.
#pragma once

#include <cstddef>

namespace llamalloc {

// False: neither an object of jemalloc nor one of the C library (os/foreign.h), or its free was not
// found.
bool free_foreign(void* p);
// Zero in the same cases.
size_t foreign_size(const void* p);
// At the start, and before the C library's names are replaced. A later lookup waits for the
// loader's lock, and whoever holds that may wait for the thread that frees.
void remember_foreign_functions();

}  // namespace llamalloc
