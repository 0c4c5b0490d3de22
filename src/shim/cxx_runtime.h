// SPDX-License-Identifier: Apache-2.0
// What a failed `new` needs of the C++ library that the program brings; null: it brings none.
#pragma once

#include <cstddef>
#include <new>

namespace llamalloc {

using NewHandler = void (*)();

// get_new_handler, and the function that throws bad_alloc.
NewHandler (*new_handler_getter())();
void (*bad_alloc_thrower())();

// The library's own `new` that does not throw, plain and aligned: it calls ours that throws, and
// catches what comes of it. Null also where ours hides it in a static program.
using QuietNew = void*(size_t, const std::nothrow_t&);
using QuietAlignedNew = void*(size_t, std::align_val_t, const std::nothrow_t&);
QuietNew* quiet_new();
QuietAlignedNew* quiet_aligned_new();

}  // namespace llamalloc
