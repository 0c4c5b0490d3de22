// SPDX-License-Identifier: Apache-2.0
// The calling thread's cache.
#pragma once

#include "engine/cache_slot.h"

namespace llamalloc {

// The cache of every thread that has none of its own. It is empty, so every fast path fails.
extern constinit ThreadCache empty_cache;
extern constinit thread_local CacheSlot cache_slot __attribute__((tls_model("initial-exec")));
// The cache that the thread has adopted, or null. It is set even while the thread's slot holds the
// empty cache. Its magazines must not be used through this pointer.
extern constinit thread_local ThreadCache* adopted_cache __attribute__((tls_model("initial-exec")));

// A scope on the slow path. If a fast path led to it, the scope's end clears that path's mark too.
class SlowPath {
 public:
  SlowPath() { cache_slot.begin_slow_path(); }
  ~SlowPath() { cache_slot.end_slow_path(); }
  SlowPath(const SlowPath&) = delete;
  SlowPath& operator=(const SlowPath&) = delete;
};

// The cache of the calling thread (Engine::own_cache). Call it only inside a SlowPath.
ThreadCache* own_cache();

}  // namespace llamalloc
