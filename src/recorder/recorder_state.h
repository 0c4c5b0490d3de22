// SPDX-License-Identifier: Apache-2.0
// The recording of this process: made once, constant-initialised, never torn down.
//
//   starting --constructor, LLAMALLOC_TRACE is set--> on --disk full, exit--> closed
//            \--------------not set--> closed
//
// A thread that forks holds all locks (os/lock_rank.h), and what it asks of its allocator meanwhile
// is not recorded.
#pragma once

#include <atomic>

#include "os/pages.h"
#include "recorder/thread_log.h"
#include "recorder/trace_output.h"
#include "recorder/trace_tables.h"

namespace llamalloc {

enum class RecorderState : uint32_t { starting, on, closed };

class Recorder {
 public:
  constexpr explicit Recorder(PageSource& pages)
      : pages_(pages), arena_(pages), tables(arena_, output) {}

  // Nanoseconds since the trace began.
  uint64_t now() { return static_cast<uint64_t>((pages_.now() - began_).n); }
  // Nothing is to be recorded any more; also in a child that has a copy of our memory and ran no
  // fork handlers.
  bool is_over() const {
    return state.load(std::memory_order_relaxed) > RecorderState::on || output.is_of_another();
  }
  // A log for the calling thread; null: there is no memory, or the thread may hold our locks.
  ThreadLog* attach();
  // The log's thread ends: written out, and free for another thread.
  void detach(ThreadLog* log);
  // Writes the log's chunk, after the stacks that it names. False: the recording is over.
  bool flush(ThreadLog& log);

  bool is_of_this_process() const;
  void open();  // the library starts
  // The process ends: everything that is recorded is in the file. In a signal handler that
  // interrupted this thread while it held our locks, or the allocator's, nothing more is written:
  // it would wait for itself. If it interrupted the thread while it changed its chunk, all else is.
  void close();
  void name_new_frames() { tables.write_names(); }

  void lock_all();
  void unlock_all();
  void restart_in_child();
  // The same, and records nothing more.
  void stop_in_child();

 private:
  ThreadLog* make_log() REQUIRES(logs_lock_);
  ThreadLog* first_log();
  bool ensure_file();
  bool begin_file();
  bool write_chunk(trace::ChunkKind kind, const void* payload, size_t bytes);
  bool write_command_line();
  bool wait_until_whole(const ThreadLog& log);

  PageSource& pages_;
  MetadataArena arena_;
  Nanos began_{};
  int pid_ = 0;
  bool is_child_ = false;  // forked: the file is its own, made when there is something to write
  Lock logs_lock_{LockRank::trace_logs};
  ThreadLog* logs_ GUARDED_BY(logs_lock_) = nullptr;  // never shrinks
  uint32_t threads_ GUARDED_BY(logs_lock_) = 0;

 public:
  std::atomic<RecorderState> state{RecorderState::starting};
  TraceOutput output;
  TraceTables tables;
  Lock late_lock{LockRank::trace_late};
  ThreadLog* late_log =
      nullptr;  // what it holds: of threads past their last exit handler, under it
};

extern Recorder recorder;
extern constinit thread_local ThreadLog* current_log __attribute__((tls_model("initial-exec")));

}  // namespace llamalloc
