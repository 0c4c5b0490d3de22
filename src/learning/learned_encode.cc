// SPDX-License-Identifier: Apache-2.0
// Writing: the bytes of a state file in memory.
#include <cstring>

#include "base/crc32.h"
#include "learning/learned_layout.h"
#include "learning/learned_state.h"

namespace llamalloc {
namespace {

uint32_t count_filled(LearnedNodes nodes) {
  uint32_t count = 0;
  for (const LearnedNode& node : nodes) count += !is_empty(node.evidence);
  return count;
}

}  // namespace

size_t copy_program_name(const char* from, char* to, size_t room) {
  size_t length = 0;
  for (; from[length] != 0 && length + 1 < room; ++length) {
    const char c = from[length];
    to[length] = c > ' ' && c <= '~' && c != '/' ? c : '_';
  }
  to[length] = 0;
  return length;
}

LearnedHeader header_for(const LearnedProgram& program) {
  LearnedHeader header;
  header.program = program.build;
  if (copy_program_name(program.name, header.name, sizeof(header.name)) == 0)
    copy_program_name("program", header.name, sizeof(header.name));
  return header;
}

size_t encoded_bytes(LearnedNodes nodes, LearnedFrames frames) {
  return learned_bytes(count_filled(nodes), frames.size());
}

void encode_learned_state(const LearnedHeader& header, LearnedNodes nodes, LearnedFrames frames,
                          uint8_t* to) {
  LearnedStart start{{}, kLearnedVersion, count_filled(nodes)};
  memcpy(start.magic, kLearnedMagic, sizeof(start.magic));
  LittleEndianOut out(to);
  lay_out_header(out, start, header);
  for (const LearnedNode& node : nodes)
    if (!is_empty(node.evidence)) lay_out_node(out, node, kLearnedVersion);
  for (const LearnedFrame& frame : frames) lay_out_frame(out, frame);
  lay_out_tail(out, header.modules, static_cast<uint32_t>(frames.size()));
  out.number(crc32(0, to, static_cast<size_t>(out.end() - to)));
}

}  // namespace llamalloc
