// SPDX-License-Identifier: Apache-2.0
// One step of a hash over words: keys of contexts, sites and marks. The state file keeps keys that
// are made of it (contracts/learned_state.md), so it stays as it is.
#pragma once

#include <cstdint>

namespace llamalloc {

constexpr uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 29;
}

}  // namespace llamalloc
