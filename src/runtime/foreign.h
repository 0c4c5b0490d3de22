// SPDX-License-Identifier: Apache-2.0
// Objects of the C library's own malloc that come to us, from who found it by a handle (dlsym), or
// in a library opened with RTLD_DEEPBIND where that cannot be mended (deep_binding.h). They go back
// where they came from. Nothing can be done for objects of ours that go there: the C library
// aborts.
#pragma once

#include <cstddef>

namespace llamalloc {

// False: not an object of the C library's (os/foreign.h), or it cannot be called.
bool free_foreign(void* p);
// Zero likewise.
size_t foreign_size(const void* p);
// Before the C library's names are replaced.
void remember_foreign_functions();

}  // namespace llamalloc
