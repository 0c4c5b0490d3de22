// SPDX-License-Identifier: Apache-2.0
// For tests: what contracts/golden/learned_v1.learned holds.
#pragma once

#include <vector>

#include "policy/learned_key.h"
#include "policy/learned_state.h"

namespace llamalloc {

inline constexpr const char* kGoldenState =
    LLAMALLOC_SOURCE_DIR "/contracts/golden/learned_v1.learned";

inline uint64_t golden_build() {
  uint8_t id[20];
  for (uint8_t i = 0; i < sizeof(id); ++i) id[i] = i;
  return hash_build_id(id, sizeof(id));
}
inline LearnedProgram golden_program() {
  return {golden_build(), "redis-server"};
}

inline LearnedHeader golden_header() {
  LearnedHeader header = header_for(golden_program());
  header.runs = 3;
  header.gate = {GateVerdict::on, 2, 0, 1466, 1117, 2};
  return header;
}

inline std::vector<LearnedNode> golden_nodes() {
  const uint64_t build = golden_build();
  const uint64_t site = extend_key(kNoFrames, build, 0x1A2B3);
  const uint64_t call = extend_key(site, build, 0x4C5D6);
  constexpr Evidence kStored{{}, {0, 0, 0, 0, 5}, 4};
  constexpr Evidence kBoth{{700, 0, 2}, {1, 0, 0, 0, 5}, 4};
  return {{call, 2, 1, kStored}, {site, 1, 0, kBoth}};
}

}  // namespace llamalloc
