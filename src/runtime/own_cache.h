// SPDX-License-Identifier: Apache-2.0
// The calling thread's cache for the slow paths.
#pragma once

#include "runtime/thread_cache.h"

namespace llamalloc {

// Made on the thread's first slow path; null when it is past its exit handlers or there is no
// memory, and while the worker empties what the thread had when it slept: then the call goes to the
// shared heap.
ThreadCache* own_cache();

}  // namespace llamalloc
