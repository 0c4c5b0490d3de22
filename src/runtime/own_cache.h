// SPDX-License-Identifier: Apache-2.0
// The calling thread's cache.
#pragma once

#include "engine/cache_slot.h"

namespace llamalloc {

// Whoever has no cache of its own has this one, which is empty and fails every fast path.
extern constinit ThreadCache empty_cache;
extern constinit thread_local CacheSlot cache_slot __attribute__((tls_model("initial-exec")));
// The cache that the thread has adopted, also while its slot holds the empty one; or null. For all
// but its magazines.
extern constinit thread_local ThreadCache* adopted_cache __attribute__((tls_model("initial-exec")));

// A slow path of this thread. It may begin as the last thing of a fast path, whose mark it clears.
class SlowPath {
 public:
  SlowPath() { cache_slot.begin_slow_path(); }
  ~SlowPath() { cache_slot.end_slow_path(); }
  SlowPath(const SlowPath&) = delete;
  SlowPath& operator=(const SlowPath&) = delete;
};

// For the slow paths. Made on the thread's first one; null when it is past its exit handlers or
// there is no memory, and while the worker has it: then the call goes to the shared heap. Only
// inside a SlowPath, and good until that ends.
ThreadCache* own_cache();

}  // namespace llamalloc
