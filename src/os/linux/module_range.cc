// SPDX-License-Identifier: Apache-2.0
#include "os/module_range.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/auxv.h>

namespace llamalloc {
namespace {

struct Range {
  uintptr_t low = 0;
  uintptr_t high = 0;
};
constinit Range ranges[2];

void find(uintptr_t code, Range* range) {
  dl_find_object object;
  if (_dl_find_object(reinterpret_cast<void*>(code), &object) != 0) return;
  range->low = reinterpret_cast<uintptr_t>(object.dlfo_map_start);
  range->high = reinterpret_cast<uintptr_t>(object.dlfo_map_end);
}

bool holds(const Range& range, uintptr_t address) {
  return address >= range.low && address < range.high;
}

}  // namespace

uintptr_t c_library_code() {
  return reinterpret_cast<uintptr_t>(&gnu_get_libc_version);
}

void find_system_libraries() {
  find(c_library_code(), &ranges[0]);
  // Not by a function: _dl_find_object, for one, is libc's. AT_BASE is 0 where the loader itself
  // was started, with the program as its argument.
  const uintptr_t loader = getauxval(AT_BASE);
  find(loader ? loader : reinterpret_cast<uintptr_t>(&_r_debug), &ranges[1]);
  // Linked statically, the C library cannot be told from the program: nothing is called its own.
  for (Range& range : ranges)
    if (holds(range, reinterpret_cast<uintptr_t>(&find_system_libraries))) range = {};
}

bool is_in_system_library(uintptr_t address) {
  for (const Range& range : ranges)
    if (holds(range, address)) return true;
  return false;
}

bool may_be_in_system_library(uintptr_t address) {
  return ranges[0].high == 0 || is_in_system_library(address);
}

}  // namespace llamalloc
