// SPDX-License-Identifier: Apache-2.0
// What a failed `new` needs of the libstdc++ that the program brings; each null if it brings none.
#pragma once

namespace llamalloc {

using NewHandler = void (*)();

// get_new_handler, and the function that throws bad_alloc.
NewHandler (*new_handler_getter())();
void (*bad_alloc_thrower())();

}  // namespace llamalloc
