// SPDX-License-Identifier: Apache-2.0
// A number for a function by its name, that survives a rebuild (contracts/model_format.md, Names).
//
//   _ZN3foo3barEv           itself          parse.constprop.0   as parse: a copy by the compiler
//   ?redis-server+0x1a2b0   ?redis-server: offsets change from build to build
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/code_key.h"

namespace llamalloc {

// How much of a frame name (contracts/stack_tokens.md) tells the function.
inline size_t lasting_length(const char* name) {
  const char* end = nullptr;
  if (name[0] == '?') {
    for (const char* at = name; (at = strstr(at, "+0x")) != nullptr; ++at) end = at;
  } else if (name[0] != '\0') {
    end = strchr(name + 1, '.');
  }
  return end == nullptr ? strlen(name) : static_cast<size_t>(end - name);
}

inline uint64_t frame_name_key(const char* name) {
  return hash_build_id(reinterpret_cast<const uint8_t*>(name), lasting_length(name));
}

}  // namespace llamalloc
