// SPDX-License-Identifier: Apache-2.0
// The key of a context: its innermost frames as (build-id, offset), contracts/learned_state.md.
// The same code has the same key in every process, wherever it is loaded; other builds have others.
//
//   kNoFrames --extend_key(frame 0)--> key of depth 1 --extend_key(frame 1)--> key of depth 2 ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace llamalloc {

inline constexpr uint64_t kNoFrames = 0x6C6C6D6C6561726E;  // "llmlearn", read as a number

// FNV-1a of a build-id's bytes, made odd; 0: there is none.
constexpr uint64_t hash_build_id(const uint8_t* id, size_t bytes) {
  if (bytes == 0) return 0;
  uint64_t h = 0xCBF29CE484222325;
  for (size_t i = 0; i < bytes; ++i) h = (h ^ id[i]) * 0x100000001B3;
  return h | 1;
}

// Of the key with one more frame. offset: of the call in the module's file.
constexpr uint64_t extend_key(uint64_t key, uint64_t build, uint64_t offset) {
  for (const uint64_t word : {build, offset}) {
    key = (key ^ word) * 0xFF51AFD7ED558CCD;
    key ^= key >> 32;
  }
  return key;
}

}  // namespace llamalloc
