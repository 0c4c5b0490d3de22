// SPDX-License-Identifier: Apache-2.0
#include "os/linux/own_memory.h"

#include <cstring>

#include "base/units.h"
#include "os/linux/readable.h"

namespace llamalloc {

bool read_own_memory(uintptr_t from, void* out, size_t bytes) {
  // Not process_vm_readv, which does it in one call: container runtimes and services refuse it,
  // some by the end of the process.
  for (uintptr_t page = align_down(from, kSmallPage); page < from + bytes; page += kSmallPage)
    if (!is_readable(page)) return false;
  memcpy(out, reinterpret_cast<const void*>(from), bytes);
  return true;
}

}  // namespace llamalloc
