// SPDX-License-Identifier: Apache-2.0
// Libraries opened with RTLD_DEEPBIND: before the first of them is, the C library's names for
// malloc and its family become ours (os/c_library_names.h), so that such a library finds what all
// others do. For the rest it is opened as it asked.
#pragma once

#include "os/c_library_names.h"

namespace llamalloc {

// Says once, by a line, if it cannot be done.
void prepare_deep_binding(const char* path, const ReplacedName* names, size_t count);
// dlopen or dlmopen behind ours.
void* next_dlopen(const char* name);

}  // namespace llamalloc
