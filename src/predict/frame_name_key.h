// SPDX-License-Identifier: Apache-2.0
// A number for a function by its name, that survives a rebuild (contracts/model_format.md, Names).
//
//   as a site, or on the way from one     parse.constprop.0       as parse: a copy by the compiler
//                                         ?redis-server+0x1a2b0   itself: no name
//   as a caller                           ?redis-server+0x1a2b0   as ?redis-server: its module
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/code_key.h"

namespace llamalloc {

// How much of a frame name (contracts/stack_tokens.md) tells the function.
inline size_t lasting_length(const char* name) {
  const char* const dot = name[0] == '\0' || name[0] == '?' ? nullptr : strchr(name + 1, '.');
  return dot == nullptr ? strlen(name) : static_cast<size_t>(dot - name);
}

inline uint64_t hash_name(const char* name, size_t length) {
  return hash_build_id(reinterpret_cast<const uint8_t*>(name), length);
}

inline uint64_t frame_name_key(const char* name) {
  return hash_name(name, lasting_length(name));
}

// Another number than that of the same function as a site.
inline uint64_t caller_name_key(const char* name) {
  if (name[0] != '?') return ~frame_name_key(name);
  const char* end = nullptr;
  for (const char* at = name; (at = strstr(at, "+0x")) != nullptr; ++at) end = at;
  return ~hash_name(name, end == nullptr ? strlen(name) : static_cast<size_t>(end - name));
}

}  // namespace llamalloc
