// SPDX-License-Identifier: Apache-2.0
// Objects of the C library's own malloc. A library opened with RTLD_DEEPBIND finds that malloc
// before ours, and hands its objects to code that finds ours. They are recognised by where they
// lie: in the space that brk has made since we started, or by the shape of a mapping of their own.
// What it allocates in other arenas (in its own threads) is not, and nothing can be done for our
// objects that it frees: the C library aborts.
#pragma once

#include <cstddef>

namespace llamalloc {

// Once, from the library's constructor.
void prepare_foreign();
// By its place and shape; it may be no object at all.
bool is_foreign(const void* p);
// False: not an object of the C library's, or it cannot be called.
bool free_foreign(void* p);
// Zero likewise.
size_t foreign_size(const void* p);

}  // namespace llamalloc
