// SPDX-License-Identifier: Apache-2.0
// The bytes of the state file of contracts/learned_state.md: what a program has learned, kept
// between runs. They are read and written in memory; state_file/state_file.h has the file.
//
//   bytes --parse--> state --merge_nodes(file, written last, own now)--> state --encode--> bytes
//            \-- hostile: checked whole before it is believed
#pragma once

#include <cstddef>
#include <cstdint>

#include "learning/gate.h"
#include "learning/learned_frames.h"
#include "learning/learned_nodes.h"
#include "os/pages.h"
#include "predict/error_text.h"

namespace llamalloc {

inline constexpr uint32_t kLearnedVersion = 2;
inline constexpr size_t kLearnedHeaderBytes = 104;
inline constexpr size_t kLearnedNodeBytes = 56;
inline constexpr size_t kLearnedFrameBytes = 40;
inline constexpr size_t kLearnedTailBytes = 16;
inline constexpr size_t kLearnedChecksumBytes = 4;  // at the end of it
inline constexpr size_t kMaxLearnedBytes = size_t{1} << 20;
// Files of version 1 are read, too: their nodes end before `parent`, there are no
// frames, and the tail is the checksum.
inline constexpr size_t kOldNodeBytes = 40;
inline constexpr size_t kMaxOldNodes =
    (kMaxLearnedBytes - kLearnedHeaderBytes - kLearnedChecksumBytes) / kOldNodeBytes;
static_assert(kMaxOldNodes == 26211);
constexpr size_t learned_bytes(size_t nodes, size_t frames) {
  return kLearnedHeaderBytes + nodes * kLearnedNodeBytes + frames * kLearnedFrameBytes +
         kLearnedTailBytes;
}
inline constexpr size_t kLearnedNameBytes = 32;  // with the 0 behind it

// Whose file it is. An empty name: whosever it is.
struct LearnedProgram {
  uint64_t build = 0;  // hash_build_id of the main program; 0: it has none
  const char* name = "";
};

struct LearnedHeader {
  uint64_t program = 0;  // LearnedProgram::build of whose record of the gate this is
  char name[kLearnedNameBytes] = {};
  uint32_t runs = 0;  // that the nodes come from
  GateKept gate;
  uint64_t modules = 0;  // loaded_builds() (os/code_shape.h) of the same; 0: not known
};
// As a program's first file has it.
LearnedHeader header_for(const LearnedProgram& program);
// A program's name as part of a file name and of a line: printable, without slash or space, cut to
// room bytes with the 0. Its length.
size_t copy_program_name(const char* from, char* to, size_t room);

struct LearnedState {
  LearnedHeader header;
  NodeArray nodes;
  FrameArray frames;
  void give_back() {
    nodes.give_back();
    frames.give_back();
  }
};

enum class ReadStatus {
  absent,
  ok,
  other_build,    // of the same name: nodes are good, since keys name builds (carry_over.h)
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
// it was made; its arrays must hold none before.
ReadStatus parse_learned_state(const char* data, size_t size, const LearnedProgram& program,
                               PageSource& scratch, LearnedState* out, ErrorText& error);
// Of what cannot be parsed because it cannot be read, or is no state file; always `unreadable`.
ReadStatus cannot_be_read(ErrorText& error, const char* why);
ReadStatus no_learned_state(ErrorText& error, const char* why);

// Nodes without samples are left out. `to` has encoded_bytes(nodes, frames) of room.
size_t encoded_bytes(LearnedNodes nodes, LearnedFrames frames);
void encode_learned_state(const LearnedHeader& header, LearnedNodes nodes, LearnedFrames frames,
                          uint8_t* to);

}  // namespace llamalloc
