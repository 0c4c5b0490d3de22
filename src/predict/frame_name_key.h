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

// So many bytes of a frame name (contracts/stack_tokens.md) count, for its number and its tokens. A
// longer name may come from a profile or a trace.
inline constexpr size_t kMaxNameBytes = 511;

inline size_t name_length(const char* name) {
  // Not strnlen: the compiler wants no bound beyond an array that holds a shorter name.
  size_t n = 0;
  while (n < kMaxNameBytes && name[n] != 0) ++n;
  return n;
}

// How much of a frame name of that length tells the function.
inline size_t lasting_length(const char* name, size_t length) {
  if (length == 0 || name[0] == '?') return length;
  const void* const dot = memchr(name + 1, '.', length - 1);
  return dot == nullptr ? length : static_cast<size_t>(static_cast<const char*>(dot) - name);
}

// How much of ?MODULE+0xSTART is ?MODULE; length if there is no start.
inline size_t module_length(const char* name, size_t length) {
  for (size_t i = length; i >= 3; --i)
    if (memcmp(name + i - 3, "+0x", 3) == 0) return i - 3;
  return length;
}

inline uint64_t hash_name(const char* name, size_t length) {
  return hash_build_id(reinterpret_cast<const uint8_t*>(name), length);
}

// Of a frame: as a site or on the way from one, and as a caller. 0: no name that a model knows.
struct FrameName {
  uint64_t function = 0;
  uint64_t caller = 0;

  bool operator==(const FrameName&) const = default;
};

// length: at most kMaxNameBytes.
inline FrameName frame_name(const char* name, size_t length) {
  const uint64_t function = hash_name(name, lasting_length(name, length));
  const bool is_named = length == 0 || name[0] != '?';
  return {function, ~(is_named ? function : hash_name(name, module_length(name, length)))};
}
inline FrameName frame_name(const char* name) {
  return frame_name(name, name_length(name));
}

inline uint64_t frame_name_key(const char* name) {
  return frame_name(name).function;
}
// Another number than that of the same function as a site.
inline uint64_t caller_name_key(const char* name) {
  return frame_name(name).caller;
}

}  // namespace llamalloc
