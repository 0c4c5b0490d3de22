// SPDX-License-Identifier: Apache-2.0
#include "runtime/probes.h"

#include "os/usdt.h"

LLAMALLOC_USDT_SEMAPHORE(llamalloc_otel_alloc_semaphore)
LLAMALLOC_USDT_SEMAPHORE(llamalloc_otel_free_semaphore)

namespace llamalloc {

[[gnu::noinline]] void probe_alloc(const void* p, size_t size, double weight) {
  if (llamalloc_otel_alloc_semaphore == 0) return;
  const double bytes = weight * static_cast<double>(size);
  LLAMALLOC_USDT("otel_memory", "alloc", "llamalloc_otel_alloc_semaphore", LLAMALLOC_USDT_3,
                 reinterpret_cast<uint64_t>(p), size, static_cast<uint64_t>(bytes + 0.5));
}

[[gnu::noinline]] void probe_free(const void* p) {
  if (llamalloc_otel_free_semaphore == 0) return;
  LLAMALLOC_USDT("otel_memory", "free", "llamalloc_otel_free_semaphore", LLAMALLOC_USDT_1,
                 reinterpret_cast<uint64_t>(p), 0, 0);
}

}  // namespace llamalloc
