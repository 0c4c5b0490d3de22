// SPDX-License-Identifier: Apache-2.0
#include "os/module_range.h"

#include <dlfcn.h>
#include <unistd.h>

// Of the loader, as the ABI of every platform with dynamic TLS wants it; _dl_find_object is libc's.
extern "C" void* __tls_get_addr(void*);

namespace llamalloc {
namespace {

struct Range {
  uintptr_t low = 0;
  uintptr_t high = 0;
};
constinit Range ranges[2];

void find(void* code, Range* range) {
  dl_find_object object;
  if (_dl_find_object(code, &object) != 0) return;
  range->low = reinterpret_cast<uintptr_t>(object.dlfo_map_start);
  range->high = reinterpret_cast<uintptr_t>(object.dlfo_map_end);
}

}  // namespace

void find_system_libraries() {
  find(reinterpret_cast<void*>(&getpid), &ranges[0]);
  find(reinterpret_cast<void*>(&__tls_get_addr), &ranges[1]);
}

bool is_in_system_library(uintptr_t address) {
  for (const Range& range : ranges)
    if (address >= range.low && address < range.high) return true;
  return false;
}

}  // namespace llamalloc
