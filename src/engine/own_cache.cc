// SPDX-License-Identifier: Apache-2.0
// How a thread gets its cache, and gives it back.
#include "engine/engine.h"

namespace llamalloc {

[[gnu::cold, gnu::noinline]] ThreadCache* Engine::take_back(CacheSlot& slot, ThreadCache* adopted) {
  return threads.take_back(adopted, &slot) ? adopted : nullptr;
}

// While it is busy, what the thread is asked or told of may allocate, and uses the new cache.
[[gnu::cold, gnu::noinline]] ThreadCache* Engine::adopt(CacheSlot& slot, ThreadCache*& adopted) {
  if (!world.may_adopt()) return nullptr;
  ThreadCache* cache = threads.adopt(arena);
  if (cache == nullptr) return nullptr;
  world.introduce_thread(*cache);
  cache->busy = 1;
  cache->tag = 0;
  adopted = cache;
  slot.cache.store(cache, std::memory_order_relaxed);
  start_countdown(cache);
  cache->unannounced = &slot;
  announce(cache);
  return cache;
}

void Engine::announce(ThreadCache* cache) {
  cache->busy = 1;
  if (cache->unannounced != nullptr && world.will_tell_end()) {
    threads.open_slot(cache, cache->unannounced);
    cache->unannounced = nullptr;
  }
  cache->busy = 0;
}

void Engine::end_thread(CacheSlot& slot, ThreadCache*& adopted) {
  ThreadCache* const cache = adopted;
  if (cache == nullptr) return;
  const bool mine = threads.close_slot(cache);
  slot.cache.store(threads.empty(), std::memory_order_relaxed);
  adopted = nullptr;
  if (mine) threads.retire(cache, heap);
}

}  // namespace llamalloc
