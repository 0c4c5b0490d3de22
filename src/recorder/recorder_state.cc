// SPDX-License-Identifier: Apache-2.0
#include "recorder/recorder_state.h"

#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/path_pattern.h"
#include "os/no_cancel.h"
#include "os/path.h"
#include "os/system_facts.h"
#include "os/thread_barrier.h"
#include "recorder/process_life.h"
#include "recorder/recorder.h"

namespace llamalloc {

constinit Recorder recorder(system_pages);
constinit thread_local ThreadLog* current_log = nullptr;

namespace {

uint64_t wall_time() {
  timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// PATH of LLAMALLOC_TRACE for the process LLAMALLOC_TRACE_PID, PATH.PID for all others.
// A path that tells processes apart holds for all of them.
bool own_path(bool is_child, char* out, size_t room) {
  const char* path = getenv("LLAMALLOC_TRACE");
  if (path == nullptr || path[0] == 0 || has_raised_privileges()) return false;
  if (path[0] != '/' || strlen(path) > TraceOutput::kLongestPath) {
    print_line(
        "LLAMALLOC_TRACE: \"%.100s\": not an absolute path of at most %zu bytes; nothing is "
        "recorded",
        path, TraceOutput::kLongestPath);
    return false;
  }
  if (!is_path_pattern(path, strlen(path))) {
    print_line("LLAMALLOC_TRACE: \"%.100s\": %s; nothing is recorded", path, kPathWords);
    return false;
  }
  const char* owner = getenv("LLAMALLOC_TRACE_PID");
  const bool is_owner =
      owner != nullptr && strtoul(owner, nullptr, 10) == static_cast<unsigned long>(getpid());
  char filled[TraceOutput::kLongestPath + 512];
  if (!path_of_option(path, filled, sizeof(filled))) return false;
  const bool own = (is_owner && !is_child) || tells_processes_apart(path);
  const int length =
      own ? snprintf(out, room, "%s", filled) : snprintf(out, room, "%s.%d", filled, getpid());
  return length >= 0 && static_cast<size_t>(length) < room;
}

}  // namespace

ThreadLog* Recorder::make_log() {
  for (ThreadLog* log = logs_; log != nullptr; log = log->next)
    if (!log->in_use) return log;
  ThreadLog* log = arena_.make_array<ThreadLog>(1);
  if (log == nullptr) return nullptr;
  log->next = logs_;
  logs_ = log;
  return log;
}

ThreadLog* Recorder::attach() {
  if (is_over() || may_hold_our_locks()) return nullptr;
  if (thread_is_past_its_handler()) return late_log;
  const InsideScope inside;  // what follows may allocate, and so may a signal handler
  ThreadLog* log;
  {
    LockGuard guard(logs_lock_);
    if (threads_ == 0 && began_.n == 0) began_ = pages_.now();
    log = make_log();
    if (log == nullptr) return nullptr;
    log->in_use = true;
    log->thread = threads_++;
    log->chunk.use(log->memory, sizeof(log->memory), trace::ChunkKind::observed, log->thread);
    current_log = log;
  }
  remember_thread(log);
  return log;
}

void Recorder::detach(ThreadLog* log) {
  if (output.is_of_another()) return;
  log->busy.store(ThreadLog::kChanging, std::memory_order_relaxed);
  if (state.load(std::memory_order_relaxed) == RecorderState::on) flush(*log);
  LockGuard guard(logs_lock_);
  log->busy.store(ThreadLog::kIdle, std::memory_order_release);
  // Until the file is open, the log is all there is.
  if (log->chunk.is_empty()) log->in_use = false;
}

bool Recorder::flush(ThreadLog& log) {
  if (log.chunk.is_empty()) return true;
  if (state.load(std::memory_order_relaxed) == RecorderState::starting) return false;
  const NoCancel here;
  log.chunk.seal();
  const bool written =
      ensure_file() && tables.write_stacks() && output.write(log.chunk.data(), log.chunk.size());
  log.chunk.clear();
  if (!written) state.store(RecorderState::closed, std::memory_order_relaxed);
  return written;
}

// The threads of a forked child, which makes its file when it has something to write, may come at
// once.
bool Recorder::ensure_file() {
  LockGuard guard(logs_lock_);
  return output.is_open() || begin_file();
}

bool Recorder::write_chunk(trace::ChunkKind kind, const void* payload, size_t bytes) {
  const trace::ChunkHeader header = trace::make_chunk_header(kind, payload, bytes, 1);
  uint8_t chunk[sizeof(header) + 4096];
  memcpy(chunk, &header, sizeof(header));
  memcpy(chunk + sizeof(header), payload, bytes);
  return output.write(chunk, sizeof(header) + bytes);
}

bool Recorder::write_command_line() {
  char text[4096];
  const int fd = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = fd >= 0 ? ::read(fd, text, sizeof(text)) : 0;
  if (fd >= 0) ::close(fd);
  return bytes <= 0 || write_chunk(trace::ChunkKind::about, text, static_cast<size_t>(bytes));
}

bool Recorder::begin_file() {
  char path[TraceOutput::kLongestPath + 24];
  if (!own_path(is_child_, path, sizeof(path))) return false;
  const int error = output.open(path) ? 0 : errno;
  if (error != 0) {
    print_line("cannot write the trace %s: %s; nothing is recorded", path, strerrordesc_np(error));
    return false;
  }
  const auto age = static_cast<uint64_t>((pages_.now() - began_).n);
  const auto header = trace::make_file_header(static_cast<uint32_t>(getpid()), wall_time() - age);
  return output.write(&header, sizeof(header)) && write_command_line();
}

bool Recorder::is_of_this_process() const {
  return getpid() == pid_;
}

void Recorder::open() {
  pid_ = getpid();
  {
    LockGuard guard(logs_lock_);
    if (began_.n == 0) began_ = pages_.now();
    if (late_log == nullptr) late_log = make_log();
    if (late_log != nullptr) {
      late_log->in_use = true;
      late_log->thread = trace::kLateStream;
      late_log->chunk.use(late_log->memory, sizeof(late_log->memory), trace::ChunkKind::observed,
                          trace::kLateStream);
    }
  }
  const bool on = late_log != nullptr && ensure_file();
  state.store(on ? RecorderState::on : RecorderState::closed, std::memory_order_release);
}

ThreadLog* Recorder::first_log() {
  LockGuard guard(logs_lock_);
  return logs_;
}

// Whether the log's chunk can be written. A thread that is not scheduled does not finish its event:
// then its last chunk is lost. So is this thread's own, if a signal handler that interrupted a
// change of it ends the process.
bool Recorder::wait_until_whole(const ThreadLog& log) {
  if (&log == current_log) return log.busy.load(std::memory_order_relaxed) != ThreadLog::kChanging;
  const Nanos patience = pages_.now() + Nanos::seconds(1);
  // Pairs with the release in Entry.
  while (log.busy.load(std::memory_order_acquire) != ThreadLog::kIdle) {
    if (pages_.now() >= patience) return false;
    sched_yield();
  }
  return true;
}

void Recorder::close() {
  if (state.exchange(RecorderState::closed) != RecorderState::on) return;
  if (output.is_of_another() || may_hold_our_locks()) return;
  const NoCancel here;
  if (output.is_open()) tables.write_names();
  // Every other thread now either is seen busy, or sees that we are closed.
  issue_thread_barrier();
  bool is_complete = true;
  for (ThreadLog* log = first_log(); log != nullptr; log = log->next) {
    if (wait_until_whole(*log))
      flush(*log);
    else
      is_complete = false;
  }
  if (!output.is_open()) return;
  tables.write_names();
  if (is_complete) write_chunk(trace::ChunkKind::end, "", 0);
}

void Recorder::lock_all() NO_THREAD_SAFETY_ANALYSIS {
  if (current_log != nullptr)
    current_log->busy.store(ThreadLog::kInside, std::memory_order_relaxed);
  tables.naming_lock().lock();
  late_lock.lock();
  logs_lock_.lock();
  tables.lock_all();
  output.lock().lock();
  arena_.lock().lock();
}

void Recorder::unlock_all() NO_THREAD_SAFETY_ANALYSIS {
  arena_.lock().unlock();
  output.lock().unlock();
  tables.unlock_all();
  logs_lock_.unlock();
  late_lock.unlock();
  tables.naming_lock().unlock();
  if (current_log != nullptr) current_log->busy.store(ThreadLog::kIdle, std::memory_order_release);
}

void Recorder::stop_in_child() {
  restart_in_child();
  state.store(RecorderState::closed, std::memory_order_relaxed);
}

// The child records into a file of its own, if it comes to fill a buffer or to end as it should.
void Recorder::restart_in_child() NO_THREAD_SAFETY_ANALYSIS {
  is_child_ = true;
  pid_ = getpid();
  arena_.lock().reset();
  output.forget();
  tables.reset_locks_after_fork();
  tables.restart_in_child();
  logs_lock_.reset();
  late_lock.reset();
  tables.naming_lock().reset();
  for (ThreadLog* log = logs_; log != nullptr; log = log->next) {
    log->chunk.clear();
    log->busy.store(ThreadLog::kIdle, std::memory_order_relaxed);
    log->in_use = log == current_log || log == late_log;
  }
}

}  // namespace llamalloc
