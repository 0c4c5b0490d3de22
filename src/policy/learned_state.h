// SPDX-License-Identifier: Apache-2.0
// The bytes of the state file of contracts/learned_state.md: what a program has learned, kept
// between runs. They are read and written in memory; state_file/state_file.h has the file.
//
//   bytes --parse--> state --merge_nodes(file, written last, own now)--> state --encode--> bytes
//            \-- hostile: checked whole before it is believed
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/pages.h"
#include "policy/gate.h"
#include "policy/learned_nodes.h"
#include "predict/error_text.h"

namespace llamalloc {

inline constexpr uint32_t kLearnedVersion = 1;
inline constexpr size_t kLearnedHeaderBytes = 104;
inline constexpr size_t kLearnedNodeBytes = 40;
inline constexpr size_t kLearnedTailBytes = 4;
inline constexpr size_t kMaxLearnedBytes = size_t{1} << 20;
inline constexpr size_t kMaxLearnedNodes =
    (kMaxLearnedBytes - kLearnedHeaderBytes - kLearnedTailBytes) / kLearnedNodeBytes;
static_assert(kMaxLearnedNodes == 26211);
constexpr size_t learned_bytes(size_t nodes) {
  return kLearnedHeaderBytes + nodes * kLearnedNodeBytes + kLearnedTailBytes;
}
inline constexpr size_t kLearnedNameBytes = 32;  // with the 0 behind it

// Whose file it is. An empty name: whosever it is.
struct LearnedProgram {
  uint64_t build = 0;  // hash_build_id of the main program; 0: it has none
  const char* name = "";
};

struct LearnedHeader {
  uint64_t program = 0;  // LearnedProgram::build of who wrote last
  char name[kLearnedNameBytes] = {};
  uint32_t runs = 0;  // that the nodes come from
  GateKept gate;
};
// As a program's first file has it.
LearnedHeader header_for(const LearnedProgram& program);
// A program's name as part of a file name and of a line: printable, without slash or space, cut to
// room bytes with the 0. Its length.
size_t copy_program_name(const char* from, char* to, size_t room);

struct LearnedState {
  LearnedHeader header;
  NodeArray nodes;
};

enum class ReadStatus {
  absent,
  ok,
  other_build,    // of the same name: nodes are good, since keys name builds; the gate is not
  other_version,  // the rest: nothing in it is used
  other_program,
  damaged,
  unreadable,  // or not a state file at all
};
constexpr bool is_usable(ReadStatus status) {
  return status == ReadStatus::ok || status == ReadStatus::other_build;
}
// Whether the file may be written over. What another version or program wrote, and what is no state
// file, is left alone.
constexpr bool may_replace(ReadStatus status) {
  return is_usable(status) || status == ReadStatus::absent || status == ReadStatus::damaged;
}

// `error`: empty if ok, else one line with cause and cure. Unless the status is usable, *out is as
// it was made; its nodes must hold none before.
ReadStatus parse_learned_state(const char* data, size_t size, const LearnedProgram& program,
                               PageSource& scratch, LearnedState* out, ErrorText& error);
// Of what cannot be parsed because it cannot be read, or is no state file; always `unreadable`.
ReadStatus cannot_be_read(ErrorText& error, const char* why);
ReadStatus no_learned_state(ErrorText& error, const char* why);

// Nodes without samples are left out. `to` has encoded_bytes(nodes) of room.
size_t encoded_bytes(LearnedNodes nodes);
void encode_learned_state(const LearnedHeader& header, LearnedNodes nodes, uint8_t* to);

}  // namespace llamalloc
