// SPDX-License-Identifier: Apache-2.0
#include "os/foreign.h"

#include <unistd.h>

#include <cstdint>

#include "base/units.h"
#include "os/linux/readable.h"

namespace llamalloc {
namespace {

constinit uintptr_t brk_start = 0;

uintptr_t brk_end() {
  return reinterpret_cast<uintptr_t>(sbrk(0));
}

// glibc's malloc.c: a chunk with a mapping of its own starts with it, its first word is zero, its
// second the size with the flag IS_MMAPPED.
bool is_own_mapping(uintptr_t address) {
  if (address % kSmallPage != 2 * sizeof(size_t)) return false;
  if (!is_readable(address & ~(kSmallPage - 1))) return false;
  const size_t* header = reinterpret_cast<const size_t*>(address) - 2;
  return header[0] == 0 && header[1] % kSmallPage == 2 && header[1] > kSmallPage;
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

}  // namespace llamalloc
