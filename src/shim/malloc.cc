// SPDX-License-Identifier: Apache-2.0
// The C allocation functions: names and contracts of the manual pages over runtime/allocator.h.
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/errno_keeper.h"
#include "base/units.h"
#include "runtime/allocator.h"
#include "runtime/jemalloc.h"
#include "runtime/release.h"
#include "shim/call_site.h"

using namespace llamalloc;

namespace {

// The alignment that a misuse (0, not a power of two) stands for is an error.
bool is_alignment(size_t alignment) {
  return is_power_of_two(alignment);
}

void* refuse(int error) {
  errno = error;
  return nullptr;
}

size_t system_page() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

extern "C" {

LLAMALLOC_EXPORT void* malloc(size_t size) {
  return allocate(size, LLAMALLOC_SITE);
}

LLAMALLOC_EXPORT void free(void* p) {
  deallocate(p, LLAMALLOC_SITE);
}

LLAMALLOC_EXPORT void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return out_of_memory();
  return allocate_zeroed(bytes, LLAMALLOC_SITE);
}

LLAMALLOC_EXPORT void* realloc(void* p, size_t size) {
  if (p != nullptr && size == 0) {  // as glibc does
    deallocate(p, LLAMALLOC_SITE);
    return nullptr;
  }
  return reallocate(p, size, LLAMALLOC_SITE);
}

LLAMALLOC_EXPORT void* reallocarray(void* p, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return out_of_memory();
  if (p != nullptr && bytes == 0) {
    deallocate(p, LLAMALLOC_SITE);
    return nullptr;
  }
  return reallocate(p, bytes, LLAMALLOC_SITE);
}

LLAMALLOC_EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  if (!is_alignment(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const ErrnoKeeper keep;
  void* p = allocate_aligned(size, alignment, LLAMALLOC_SITE);
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}

LLAMALLOC_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  if (!is_alignment(alignment)) return refuse(EINVAL);
  return allocate_aligned(size, alignment, LLAMALLOC_SITE);
}

// Other than its standard siblings, rounds an odd alignment up to a power of two.
LLAMALLOC_EXPORT void* memalign(size_t alignment, size_t size) {
  if (alignment > SIZE_MAX / 2 + 1) return refuse(EINVAL);
  size_t power = 16;
  while (power < alignment) power *= 2;
  return allocate_aligned(size, power, LLAMALLOC_SITE);
}

LLAMALLOC_EXPORT void* valloc(size_t size) {
  return allocate_aligned(size, system_page(), LLAMALLOC_SITE);
}

LLAMALLOC_EXPORT void* pvalloc(size_t size) {
  const size_t page = system_page();
  if (size > PTRDIFF_MAX - page) return refuse(ENOMEM);
  return allocate_aligned(size == 0 ? page : align_up(size, page), page, LLAMALLOC_SITE);
}

LLAMALLOC_EXPORT void cfree(void* p) {
  deallocate(p, LLAMALLOC_SITE);
}
LLAMALLOC_EXPORT void free_sized(void* p, size_t size) {
  deallocate(p, LLAMALLOC_SITE, size);
}
LLAMALLOC_EXPORT void free_aligned_sized(void* p, size_t, size_t size) {
  deallocate(p, LLAMALLOC_SITE, size);
}
LLAMALLOC_EXPORT void sdallocx(void* p, size_t size, int flags) {
  const Jemalloc* const other = other_jemalloc();
  if (other != nullptr && p != nullptr && process.heap.find(p) == nullptr &&
      (!process.hardening.is_on() || other->owns(p)))
    return other->sdallocx(p, size, flags);
  deallocate(p, LLAMALLOC_SITE, size);
}

LLAMALLOC_EXPORT size_t malloc_usable_size(void* p) {
  return usable_size(p);
}
LLAMALLOC_EXPORT size_t malloc_size(const void* p) {
  return usable_size(p);
}

// flags, as jemalloc has them: the logarithm of the alignment in the lowest six bits. True for our
// malloc and for jemalloc's mallocx alike.
LLAMALLOC_EXPORT size_t nallocx(size_t size, int flags) {
  const size_t ours = future_usable_size(size, size_t{1} << (flags & 63));
  const Jemalloc* const other = find_jemalloc_early();
  const size_t theirs = other != nullptr ? other->nallocx(size, flags) : ours;
  return theirs < ours ? theirs : ours;
}

LLAMALLOC_EXPORT int malloc_trim(size_t pad) {
  return release_memory(pad).total() != 0;
}

#define LLAMALLOC_SAME_AS(name) \
  __attribute__((alias(#name), copy(name), visibility("default"), used))
void* __libc_malloc(size_t) LLAMALLOC_SAME_AS(malloc);
void __libc_free(void*) LLAMALLOC_SAME_AS(free);
void* __libc_calloc(size_t, size_t) LLAMALLOC_SAME_AS(calloc);
void* __libc_realloc(void*, size_t) LLAMALLOC_SAME_AS(realloc);
void* __libc_memalign(size_t, size_t) LLAMALLOC_SAME_AS(memalign);
void* __libc_valloc(size_t) LLAMALLOC_SAME_AS(valloc);
void* __libc_pvalloc(size_t) LLAMALLOC_SAME_AS(pvalloc);
int __posix_memalign(void**, size_t, size_t) LLAMALLOC_SAME_AS(posix_memalign);

// No virtual function of ours is pure where it can be called; libstdc++ is not linked.
void __cxa_pure_virtual() {
  __builtin_trap();
}

}  // extern "C"

LLAMALLOC_WITH_TOKEN(malloc)
LLAMALLOC_WITH_TOKEN(calloc)
LLAMALLOC_WITH_TOKEN(realloc)
LLAMALLOC_WITH_TOKEN(reallocarray)
LLAMALLOC_WITH_TOKEN(aligned_alloc)
LLAMALLOC_WITH_TOKEN(posix_memalign)
LLAMALLOC_WITH_TOKEN(memalign)
LLAMALLOC_WITH_TOKEN(valloc)
LLAMALLOC_WITH_TOKEN(pvalloc)
