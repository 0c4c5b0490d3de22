// SPDX-License-Identifier: Apache-2.0
// Objects of the C library's own malloc, recognised by where they lie: in the space that brk has
// made since we started, or at the start of a mapping of their own. What it allocates in other
// arenas (those of threads) is not.
#pragma once

namespace llamalloc {

// Once, from the library's constructor.
void prepare_foreign();
// By its place and shape; it may be no object at all.
bool is_foreign(const void* p);

}  // namespace llamalloc
