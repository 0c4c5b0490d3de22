// SPDX-License-Identifier: Apache-2.0
// What the dynamic loader's list of modules is told apart by: how often it changed, and which build
// a module is.
#pragma once

#include <cstdint>
#include <cstring>

namespace llamalloc {

// How many modules were ever loaded and unloaded. Equal counts: the list is the same.
struct LoaderCounts {
  uint64_t loads = 0;
  uint64_t unloads = 0;
  bool operator==(const LoaderCounts&) const = default;
};

// Of a module's NT_GNU_BUILD_ID note. A longer one counts as none.
struct BuildId {
  uint8_t data[32] = {};
  uint8_t size = 0;  // 0: there is none

  bool operator==(const BuildId& o) const {
    return size == o.size && memcmp(data, o.data, size) == 0;
  }
};

}  // namespace llamalloc
