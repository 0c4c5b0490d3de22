// SPDX-License-Identifier: Apache-2.0
// The state file on a disk. learning/learned_state.h has its bytes.
//
//   with_state_lock(path,   read --> merge_nodes(file, written last, own now) --> write  )
//                                                                   whole or not --/
//
// All of it is for a thread that may wait for a disk, in memory that is given back. Whoever calls
// holds a lock that fork waits for.
#pragma once

#include "learning/learned_state.h"
#include "os/file_lock.h"

namespace llamalloc {

// `error`: empty if absent or ok, else one line that names file, cause and cure. Unless the status
// is usable, *out is as it was made; its arrays must hold none before.
ReadStatus read_learned_state(const char* path, const LearnedProgram& program, PageSource& scratch,
                              LearnedState* out, char* error, size_t room);

// Sorted nodes and frames, of at most kMaxLearnedBytes; nodes without samples are left out. For the
// user only (0600). False: `error` is one line, the old file is as it was, and nothing else is left
// behind.
bool write_learned_state(const char* path, const LearnedHeader& header, LearnedNodes nodes,
                         LearnedFrames frames, PageSource& scratch, char* error, size_t room);

// VALUE, or VALUE/NAME.learned where VALUE is a folder or ends in a slash. False: too long.
bool learned_path(const char* value, const char* name, char* out, size_t room);

// Fault::busy: another process has the lock; refused: it is another user's. A lock that cannot be
// made keeps nobody out: the write then says what is wrong with the place.
FileLock::Fault lock_learned_state(const char* path, FileLock* lock);

// Calls f() with the lock of all who share the file, but not, and returns at once, if another
// process has it or it is another user's.
template <typename F>
FileLock::Fault with_state_lock(const char* path, F&& f) {
  FileLock lock;
  const FileLock::Fault fault = lock_learned_state(path, &lock);
  if (fault == FileLock::Fault::busy || fault == FileLock::Fault::refused) return fault;
  f();
  lock.close();
  return fault;
}

}  // namespace llamalloc
