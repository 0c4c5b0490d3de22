// SPDX-License-Identifier: Apache-2.0
// The calling thread's cache for the slow paths.
#pragma once

#include "runtime/cache_slot.h"

namespace llamalloc {

// Made on the thread's first slow path; null when it is past its exit handlers or there is no
// memory, and while the worker has it: then the call goes to the shared heap. Only inside a
// SlowPath, and good until that ends.
ThreadCache* own_cache();

}  // namespace llamalloc
