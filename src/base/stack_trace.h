// SPDX-License-Identifier: Apache-2.0
// A captured calling context: return addresses, the allocation site's first.
#pragma once

#include <cstdint>

namespace llamalloc {

inline constexpr int kMaxFrames = 64;

struct StackTrace {
  uint16_t depth = 0;
  bool truncated = false;  // the walk stopped before the outermost frame
  uintptr_t frames[kMaxFrames];
  // What lay there: the same for all frames of one module, another one if a different file was
  // loaded at the same place. 0: unknown.
  uint64_t images[kMaxFrames] = {};
  // The frame in any process that runs this build: a hash of the module's build and the offset in
  // it. 0: unknown.
  uint64_t codes[kMaxFrames] = {};
  // Bytes from the stack pointer at the return address to just above the return address of the
  // function around it. 0: unknown.
  uint32_t sizes[kMaxFrames] = {};

  bool operator==(const StackTrace& o) const {
    if (depth != o.depth) return false;
    for (int i = 0; i < depth; ++i)
      if (frames[i] != o.frames[i] || images[i] != o.images[i]) return false;
    return true;
  }
  uint64_t hash() const {
    uint64_t h = 0x9E3779B97F4A7C15ull * (depth + 1u);
    for (int i = 0; i < depth; ++i)
      h = (h ^ frames[i] ^ images[i]) * 0xFF51AFD7ED558CCDull, h ^= h >> 32;
    return h;
  }
};

}  // namespace llamalloc
