// SPDX-License-Identifier: Apache-2.0
// A number for a place in code that is the same in every process and at every address, and another
// one in every other build (contracts/learned_state.md, Keys).
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

// FNV-1a of a build-id's bytes, made odd; 0: there is none.
constexpr uint64_t hash_build_id(const uint8_t* id, size_t bytes) {
  if (bytes == 0) return 0;
  uint64_t h = 0xCBF29CE484222325;
  for (size_t i = 0; i < bytes; ++i) h = (h ^ id[i]) * 0x100000001B3;
  return h | 1;
}

// A module by what numbers its frames.
struct CodeModule {
  uintptr_t low = 0;
  uintptr_t limit = 0;
  uint64_t build = 0;

  bool contains(uintptr_t address) const { return address - low < limit - low; }
};

// offset: of the return address from the module's lowest address. Never 0.
constexpr uint64_t code_key(uint64_t build, uint64_t offset) {
  const uint64_t hash = (build ^ offset) * 0xFF51AFD7ED558CCDull;
  return (hash ^ hash >> 32) | 1;
}

}  // namespace llamalloc
