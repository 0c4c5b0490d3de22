// SPDX-License-Identifier: Apache-2.0
// Recognises objects of the C library's own malloc by their address: in the brk heap that grew
// since we started, or at the start of a mapping. Objects in its other arenas (of threads) are not
// recognised.
#pragma once

namespace llamalloc {

// Once, from the library's constructor.
void prepare_foreign();
// A guess by address and header; p may still be no object.
bool is_foreign(const void* p);

}  // namespace llamalloc
