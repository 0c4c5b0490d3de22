// SPDX-License-Identifier: Apache-2.0
#include "os/foreign.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/check.h"

// A program linked statically has none, and no other malloc either.
#pragma weak dlsym

namespace llamalloc {
namespace {

constexpr uintptr_t kPage = 4096;
constinit uintptr_t brk_start = 0;
constinit std::atomic<bool> said{false};

uintptr_t brk_end() {
  return reinterpret_cast<uintptr_t>(sbrk(0));
}

// glibc's malloc.c: a chunk with a mapping of its own starts with it, its first word is zero, its
// second the size with the flag IS_MMAPPED.
bool is_own_mapping(uintptr_t address) {
  if (address % kPage != 2 * sizeof(size_t)) return false;
  unsigned char present;
  if (mincore(reinterpret_cast<void*>(address & ~(kPage - 1)), kPage, &present) != 0) return false;
  const size_t* header = reinterpret_cast<const size_t*>(address) - 2;
  return header[0] == 0 && header[1] % kPage == 2 && header[1] > kPage;
}

template <typename F>
F* next_function(const char* name) {
  return &dlsym != nullptr ? reinterpret_cast<F*>(dlsym(RTLD_NEXT, name)) : nullptr;
}

}  // namespace

bool is_foreign(const void* p) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  if (address % 16 != 0 || brk_start == 0) return false;
  return (address > brk_start && address < brk_end()) || is_own_mapping(address);
}

void prepare_foreign() {
  brk_start = brk_end();
}

bool free_foreign(void* p) {
  const int saved = errno;
  if (!is_foreign(p)) return false;
  auto* real = next_function<void(void*)>("free");
  if (real == nullptr) return false;
  if (!said.exchange(true, std::memory_order_relaxed))
    print_line(
        "free(%p): an object of the C library's malloc, which a library opened with "
        "RTLD_DEEPBIND uses; passed on to it (said once)",
        p);
  real(p);
  errno = saved;
  return true;
}

size_t foreign_size(const void* p) {
  if (!is_foreign(p)) return 0;
  auto* real = next_function<size_t(const void*)>("malloc_usable_size");
  return real ? real(p) : 0;
}

}  // namespace llamalloc
