// SPDX-License-Identifier: Apache-2.0
// Objects of the C library's own malloc that come to us. A library opened with RTLD_DEEPBIND finds
// that malloc before ours, and hands its objects to code that finds ours. They go back where they
// came from. Nothing can be done for objects of ours that such a library frees: the C library
// aborts.
#pragma once

#include <cstddef>

namespace llamalloc {

// False: not an object of the C library's (os/foreign.h), or it cannot be called.
bool free_foreign(void* p);
// Zero likewise.
size_t foreign_size(const void* p);

}  // namespace llamalloc
