// SPDX-License-Identifier: Apache-2.0
// The stacks, frames, modules and names of a recording, and which of them are in the file yet.
//
//   intern() --> StackTable --> write_stacks(): frames and stacks that are new, before the events
//                                               that name them
//                           --> write_names(): modules and names, later, on the naming thread
#pragma once

#include <cstdint>

#include "os/arena.h"
#include "os/lock.h"
#include "os/symbols.h"
#include "profile/stack_table.h"
#include "recorder/trace_output.h"
#include "trace/format.h"

namespace llamalloc {

class TraceTables {
 public:
  constexpr TraceTables(MetadataArena& arena, TraceOutput& output)
      : arena_(arena), output_(output), stacks_(arena) {}

  // The number of the stack in the file; 0: unknown, the table is full.
  uint32_t intern(const StackTrace& trace) { return stacks_.intern(trace) + 1; }
  // What intern() gave so far. False: the recording is over.
  bool write_stacks();
  // Names of frames that have none in the file. Takes the loader's lock: the caller holds none that
  // malloc wants, and no thread forks meanwhile.
  bool write_names();
  bool has_unnamed() {
    LockGuard guard(naming_lock_);
    return names_written_ < stacks_.frames();
  }

  Lock& naming_lock() RETURN_CAPABILITY(naming_lock_) {
    return naming_lock_;
  }  // for fork, as are those below
  void lock_all();
  void unlock_all();
  void reset_locks_after_fork();
  // In a forked child, whose file has nothing yet.
  void restart_in_child();

 private:
  static constexpr size_t kRoom = 64 * 1024;
  static constexpr size_t kLongestName = 4096;
  static constexpr uint32_t kModules = 4096;

  bool write_frames() REQUIRES(lock_);
  // 1 + index; 0: none
  uint32_t module_at(uintptr_t address, uint64_t image) REQUIRES(naming_lock_);
  bool name_frame(uint32_t frame) REQUIRES(naming_lock_);

  // Records of one kind, written when the buffer is full and at the end.
  struct Batch {
    uint8_t* memory = nullptr;
    uint8_t* at = nullptr;
    uint32_t count = 0;
  };
  bool prepare(Batch& batch);
  bool make_room(Batch& batch, trace::ChunkKind kind, size_t bytes);
  bool write(Batch& batch, trace::ChunkKind kind);

  MetadataArena& arena_;
  TraceOutput& output_;
  StackTable stacks_;
  Lock lock_{LockRank::trace_tables};
  Batch stack_batch_ GUARDED_BY(lock_);
  uint32_t frames_written_ GUARDED_BY(lock_) = 0;
  uint32_t stacks_written_ GUARDED_BY(lock_) = 0;
  Lock naming_lock_{LockRank::trace_naming};
  Batch module_batch_ GUARDED_BY(naming_lock_);
  Batch name_batch_ GUARDED_BY(naming_lock_);
  Symboliser* symboliser_ GUARDED_BY(naming_lock_) = nullptr;
  ModuleInfo* modules_ GUARDED_BY(naming_lock_) = nullptr;
  uint32_t module_count_ GUARDED_BY(naming_lock_) = 0;
  uint32_t names_written_ GUARDED_BY(naming_lock_) = 0;
};

}  // namespace llamalloc
