// SPDX-License-Identifier: Apache-2.0
// Libraries opened with RTLD_DEEPBIND. Before the first one is opened, the C library's symbols for
// malloc and its family are redirected to ours (os/c_library_names.h), so that such a library finds
// the same malloc as all others. Nothing else about the dlopen call changes.
#pragma once

#include "os/c_library_names.h"

namespace llamalloc {

// Prints a line, once, if that is not possible.
void prepare_deep_binding(const char* path, const ReplacedName* names, size_t count);
// The dlopen or dlmopen that ours forwards to.
void* next_dlopen(const char* name);

}  // namespace llamalloc
