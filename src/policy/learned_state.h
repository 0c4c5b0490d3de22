// SPDX-License-Identifier: Apache-2.0
// The state file of contracts/learned_state.md: what a program has learned, kept between runs.
//
//   with_state_lock(path,   read --> merge_nodes(file, written last, own now) --> write  )
//                             \-- hostile: checked whole before it is believed    \-- whole or not
//
// All of it is for a thread that may wait for a disk, in memory that is given back. Whoever calls
// holds a lock that fork waits for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/file_lock.h"
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

// `error`: empty if absent or ok, else one line that names file, cause and cure. Unless the status
// is usable, *out is as it was made; its nodes must hold none before.
ReadStatus read_learned_state(const char* path, const LearnedProgram& program, PageSource& scratch,
                              LearnedState* out, char* error, size_t room);
// The same of bytes in memory.
ReadStatus parse_learned_state(const char* data, size_t size, const LearnedProgram& program,
                               PageSource& scratch, LearnedState* out, ErrorText& error);

// Sorted nodes, at most kMaxLearnedNodes; those without samples are left out. For the user only
// (0600). False: `error` is one line, the old file is as it was, and nothing else is left behind.
bool write_learned_state(const char* path, const LearnedHeader& header, LearnedNodes nodes,
                         PageSource& scratch, char* error, size_t room);

// VALUE, or VALUE/NAME.learned where VALUE is a folder or ends in a slash. False: too long.
bool learned_path(const char* value, const char* name, char* out, size_t room);

// Fault::busy: another process has the lock. A lock that cannot be made keeps nobody out: the write
// then says what is wrong with the place.
FileLock::Fault lock_learned_state(const char* path, FileLock* lock);

// Calls f() with the lock of all who share the file; false, at once, if another process has it.
template <typename F>
bool with_state_lock(const char* path, F&& f) {
  FileLock lock;
  if (lock_learned_state(path, &lock) == FileLock::Fault::busy) return false;
  f();
  lock.close();
  return true;
}

}  // namespace llamalloc
