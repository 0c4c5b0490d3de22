// SPDX-License-Identifier: Apache-2.0
// For tests: what contracts/golden/learned_v2.learned holds. learned_v1 is the same before there
// were paths and frames.
#pragma once

#include <vector>

#include "base/code_key.h"
#include "base/size_bucket.h"
#include "learning/learned_state.h"
#include "predict/context_tree.h"

namespace llamalloc {

inline constexpr const char* kGoldenState =
    LLAMALLOC_SOURCE_DIR "/contracts/golden/learned_v2.learned";
inline constexpr const char* kGoldenOldState =
    LLAMALLOC_SOURCE_DIR "/contracts/golden/learned_v1.learned";

inline uint64_t golden_build() {
  uint8_t id[20];
  for (uint8_t i = 0; i < sizeof(id); ++i) id[i] = i;
  return hash_build_id(id, sizeof(id));
}
inline uint64_t golden_site() {
  return code_key(golden_build(), 0x1A2B3);
}
inline uint64_t golden_caller() {
  return code_key(golden_build(), 0x4C5D6);
}
inline LearnedProgram golden_program() {
  return {golden_build(), "redis-server"};
}

inline LearnedHeader golden_header() {
  LearnedHeader header = header_for(golden_program());
  header.runs = 3;
  header.gate.verdict = GateVerdict::helps;
  header.gate.reversals = 1;
  header.gate.blind = {.rounds = 2, .high = 61, .low = 186, .depth = 400, .ratio = 1466};
  header.gate.peak = 656;
  header.modules = 0x0123456789ABCDEF;
  header.gate.placed = {.rounds = 1, .high = kNoFigure, .low = 48, .depth = 410, .ratio = 1117};
  return header;
}

// A site, its objects of 50 bytes, and one of the callers that ask for those; by key.
inline std::vector<LearnedNode> golden_nodes() {
  const uint64_t bucket = size_bucket(50);
  ContextPath path(golden_site(), bucket);
  const uint64_t site = path.key();
  path.descend(0);
  const uint64_t sized = path.key();
  path.descend(golden_caller());
  constexpr Evidence kStored{{}, {0, 0, 0, 0, 5}, 4};
  constexpr Evidence kSized{{90, 0, 2}, {1, 0, 0, 0, 5}, 4};
  constexpr Evidence kAll{{700, 0, 2}, {1, 0, 0, 0, 5}, 4};
  return {{sized, 2, true, 0, kSized, site, bucket},
          {site, 1, true, 0, kAll, ContextPath::kRoot, golden_site()},
          {path.key(), 3, false, 1, kStored, sized, golden_caller()}};
}

inline std::vector<LearnedFrame> golden_frames() {
  const auto build = static_cast<uint32_t>(golden_build());
  return {{golden_caller(), {0x1111222233334445, 0x0A0B0C0D, 0}, {0x01020304, 1, 2}, 0x31, build},
          {golden_site(), {0x5555666677778889, 0, 0x0A0B0C0D}, {}, 0x25, build}};
}

}  // namespace llamalloc
