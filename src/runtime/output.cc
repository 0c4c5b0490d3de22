// SPDX-License-Identifier: Apache-2.0
#include "runtime/output.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/held_lines.h"
#include "base/path_pattern.h"
#include "base/print_plain.h"
#include "os/clock.h"
#include "os/path.h"
#include "runtime/background_state.h"
#include "runtime/control.h"
#include "runtime/figures.h"
#include "runtime/learning.h"
#include "runtime/system_settings.h"
#include "telemetry/stats_json.h"

namespace llamalloc {
namespace {

constexpr Nanos kPeakStep = Nanos::millis(100);  // between two looks

constexpr Nanos kFirstStats = Nanos::seconds(1);  // after the start

// Who wants a file. A fault is told once to each of the first two.
enum class Wanted : uint8_t { by_option, by_call, by_command };

struct OutputState {
  bool complained[2] = {};  // of what options, and of what calls want
  bool is_child = false;    // forked from the process that was started with these options
  Wanted wanted GUARDED_BY(background.work_lock) = Wanted::by_option;
  const char* fault GUARDED_BY(background.work_lock) = nullptr;  // of the last file
  Nanos last_flush GUARDED_BY(background.work_lock){};
  bool finished GUARDED_BY(background.work_lock) = false;  // the recorded time is over
  ProfileWindow* window GUARDED_BY(background.work_lock) = nullptr;
  uint64_t samples_written GUARDED_BY(background.work_lock) = 0;
  Nanos last_stats GUARDED_BY(background.work_lock){};
  Nanos last_look GUARDED_BY(background.work_lock){};  // at the figures, for their peak
  PeakFigures peak GUARDED_BY(background.work_lock);
  FileSink* sink GUARDED_BY(background.work_lock) = nullptr;  // made when first needed
};
constinit OutputState state;

bool owns_paths() {
  const uint64_t owner = process.options.owner_pid;
  return owner ? owner == static_cast<uint64_t>(getpid()) : !state.is_child;
}

// Who was asked and its forked children do; no other program that one of them starts.
bool writes_stats() {
  return process.options.stats.text[0] != 0 && (owns_paths() || state.is_child);
}

// An option's path, for this process; see OwnPath::fill.
struct OwnPath {
  char text[kOptionText + 512];

  // For others than the process that was asked, which inherited the options: PATH.PID, unless the
  // path tells processes apart by itself. False: too long.
  bool fill(const char* pattern) {
    if (!path_of_option(pattern, text, sizeof(text))) return false;
    anchor_path(text, sizeof(text));
    if (owns_paths() || tells_processes_apart(pattern)) return true;
    const size_t used = strlen(text);
    const int added = snprintf(text + used, sizeof(text) - used, ".%d", getpid());
    return used + static_cast<size_t>(added) < sizeof(text);
  }
};

bool open_sink(const char* path) REQUIRES(background.work_lock) {
  if (state.sink == nullptr) state.sink = process.arena.make<FileSink>();
  return state.sink != nullptr && state.sink->open(path);
}

const char* sink_reason() REQUIRES(background.work_lock) {
  return state.sink && state.sink->error() != 0 ? state.sink->reason() : "out of memory";
}

// A command is answered with the reason.
bool complain(const char* what, const char* path, const char* reason)
    REQUIRES(background.work_lock) {
  state.fault = reason;
  if (state.wanted == Wanted::by_command) return false;
  if (!std::exchange(state.complained[static_cast<int>(state.wanted)], true))
    print_line("cannot write the %s %s: %s; the program continues without it", what, path, reason);
  return false;
}

// Of a file that no command asks for. False: it is not to be written.
bool fill_if_allowed(OwnPath* path, const char* what, const char* pattern)
    REQUIRES(background.work_lock) {
  if (!path->fill(pattern)) return false;
  if (!process_world.program_filters_calls()) return true;
  return complain(what, path->text, "the program's seccomp filter might end it for opening a file");
}

void check_path(const char* option, const char* pattern) {
  OwnPath own;
  const bool filled = own.fill(pattern);
  const char* const path = filled ? own.text : pattern;
  const int error = filled ? FileSink::why_not(path) : ENAMETOOLONG;
  if (error == 0) return;
  print_line(
      "cannot write the %s file %.300s: %s; correct this, or choose another path with %s:PATH; the "
      "program continues",
      option, path, strerrordesc_np(error), option);
  state.complained[static_cast<int>(Wanted::by_option)] = true;
}

}  // namespace

void check_output_paths() {
  const Options& options = process.options;
  if (options.profile.text[0] != 0) check_path("profile", options.profile.text);
  if (options.stats.text[0] != 0 && owns_paths()) check_path("stats", options.stats.text);
}

bool write_for(const char** why, bool (*write)(const char*), const char* path) {
  background.work_lock.assert_held();
  state.wanted = why != nullptr ? Wanted::by_command : Wanted::by_call;
  state.fault = "failed";
  const bool written = write(path);
  state.wanted = Wanted::by_option;
  if (!written && why != nullptr) *why = state.fault;
  return written;
}

bool write_profile(const char* path, bool at_exit, ProfileKind kind, const ProfileWindow* window) {
  background.work_lock.assert_held();
  Symboliser* names = background.ensure_symboliser();
  if (names == nullptr) return complain("profile", path, "out of memory");
  if (!open_sink(path)) return complain("profile", path, sink_reason());
  const Profiler::WriteInfo info{.now = process.system.now(),
                                 .wall_time = read_clock(CLOCK_REALTIME),
                                 .at_exit = at_exit,
                                 .kind = kind,
                                 .window = window,
                                 .program = program_invocation_short_name,
                                 .started = process.started,
                                 .load = measured_for_profile()};
  const bool written = process.profiler.write(*state.sink, *names, info);
  if (written && state.sink->commit()) return true;
  state.sink->abandon();
  return complain("profile", path, sink_reason());
}

namespace {

alignas(ProfileWindow) constinit char window_room[sizeof(ProfileWindow)] = {};

// When; 0: none is open. For who may not wait for the lock.
constinit std::atomic<int64_t> window_opened{0};

// Also in a child of a fork in a signal handler, which holds no lock.
void drop_window() NO_THREAD_SAFETY_ANALYSIS {
  if (state.window != nullptr) state.window->~ProfileWindow();
  state.window = nullptr;
  window_opened.store(0, std::memory_order_relaxed);
}

}  // namespace

void close_window() {
  background.work_lock.assert_held();
  drop_window();
}

Nanos window_age() {
  const Nanos opened{window_opened.load(std::memory_order_relaxed)};
  return opened.n == 0 ? Nanos{} : process.system.now() - opened;
}

bool open_window() {
  background.work_lock.assert_held();
  close_window();
  state.window = new (window_room) ProfileWindow(process.system);
  if (!process.profiler.open_window(state.window, process.system.now())) {
    state.fault = "out of memory";
    return close_window(), false;
  }
  window_opened.store(state.window->opened.n, std::memory_order_relaxed);
  return true;
}

bool write_profile_window(const char* path) {
  background.work_lock.assert_held();
  state.fault = "no window is open; open one first, with window open";
  if (state.window == nullptr) return false;
  const bool written = write_profile(path, false, ProfileKind::lifetimes, state.window);
  if (written) close_window();
  return written;
}

void name_sampled_frames() {
  background.work_lock.assert_held();
  const bool wanted = process.options.profile.text[0] != 0 || control_is_open();
  if (!wanted || !process.profiler.on()) return;
  Symboliser* names = background.ensure_symboliser();
  if (names != nullptr) process.profiler.name_frames(*names);
}

void write_profile_if_due(Nanos now) {
  background.work_lock.assert_held();
  const Options& options = process.options;
  if (options.profile.text[0] == 0 || state.finished || !process.ready.load()) return;
  const Nanos duration{static_cast<int64_t>(options.profile_duration)};
  const bool over = duration.n != 0 && now - process.started >= duration;
  const bool flush = now - state.last_flush >= Nanos{static_cast<int64_t>(options.profile_flush)};
  if (!over && !flush) return;
  state.last_flush = now;
  if (over) {
    const bool others_ask = is_learning() || control_is_open() || process.hardening.is_on() ||
                            process.options.segregate == Segregate::always;
    if (!others_ask) process.profiler.stop();
    state.finished = true;
  }
  if (!over && process.profiler.samples() == state.samples_written) return;
  state.samples_written = process.profiler.samples();
  OwnPath path;
  if (fill_if_allowed(&path, "profile", options.profile.text)) write_profile(path.text, false);
}

bool writes_stats_while_running() {
  return writes_stats() && (!state.is_child || tells_processes_apart(process.options.stats.text));
}

namespace {

void note_peak(Nanos now) REQUIRES(background.work_lock) {
  const Figures figures = telemetry.quick_figures(process.threads.in_use());
  const int allocated = static_cast<int>(Stat::allocated);
  if (state.peak.taken && figures.stats[allocated] <= state.peak.stats[allocated]) return;
  state.peak.taken = true;
  state.peak.at = now;
  memcpy(state.peak.stats, figures.stats, sizeof(state.peak.stats));
}

// The first ones soon, but not those of a program that ends at once: it leaves an earlier file.
Nanos next_stats() REQUIRES(background.work_lock) {
  const Nanos flush{static_cast<int64_t>(process.options.stats_flush)};
  if (state.last_stats.n != 0) return state.last_stats + flush;
  return process.started + std::min(flush, kFirstStats);
}

}  // namespace

void write_stats_if_due(Nanos now) {
  background.work_lock.assert_held();
  const Options& options = process.options;
  if (!writes_stats_while_running() || !process.ready.load()) return;
  if (now - state.last_look >= kPeakStep) {
    state.last_look = now;
    note_peak(now);
  }
  if (now < next_stats()) return;
  state.last_stats = now;
  OwnPath path;
  if (fill_if_allowed(&path, "statistics", options.stats.text)) write_stats(path.text);
}

namespace {

bool write_snapshot(ProcessSnapshot* snapshot, ByteSink& sink) {
  if (snapshot == nullptr) return false;
  write_stats_json(snapshot, sink);
  telemetry.give(snapshot);
  return true;
}

}  // namespace

bool write_stats_json(ByteSink& sink) {
  return write_snapshot(take_process_snapshot(read_system()), sink);
}

bool write_stats(const char* path) {
  background.work_lock.assert_held();
  if (!open_sink(path)) return complain("statistics", path, sink_reason());
  const PeakFigures* const peak = state.peak.taken ? &state.peak : nullptr;
  if (!write_snapshot(take_process_snapshot({huge_pages_state()}, peak), *state.sink)) {
    state.sink->abandon();
    return complain("statistics", path, "out of memory");
  }
  if (state.sink->commit()) return true;
  return complain("statistics", path, sink_reason());
}

void print_summary() {
  const Figures figures = current_figures();
  for (int i = 0; i < kStats; ++i)
    print_line("%-22s %14llu %s", kStatRows[i].name,
               static_cast<unsigned long long>(figures.stats[i]), kStatRows[i].unit);
}

void write_to_stderr(void*, const char* text) {
  print_plain("%s", text);
}

namespace {

// Longer than a large profile takes, shorter than a service manager waits before it kills.
constexpr Nanos kLongestWaitAtExit = Nanos::seconds(5);

void write_all_at_exit() REQUIRES(background.work_lock) {
  save_learned_at_exit();
  const Options& options = process.options;
  OwnPath path;
  if (options.profile.text[0] != 0 && !state.finished &&
      (owns_paths() || process.profiler.samples() > 0) &&
      fill_if_allowed(&path, "profile", options.profile.text))
    write_profile(path.text, true);
  if (writes_stats() && fill_if_allowed(&path, "statistics", options.stats.text)) {
    note_peak(process.system.now());
    write_stats(path.text);
  }
}

}  // namespace

void write_at_exit() {
  if (!is_learning() && process.options.profile.text[0] == 0 && !writes_stats()) return;
  const HeldLines lines;
  if (!wait_for_work_lock(kLongestWaitAtExit))
    return print_line(
        "the background thread is busy (does a disk hang?); nothing is written at exit");
  write_all_at_exit();
  background.work_lock.unlock();
}

// No other thread is there.
void output_after_fork_in_child() NO_THREAD_SAFETY_ANALYSIS {
  state.is_child = true;
  state.wanted = Wanted::by_option;  // the parent may have been asked just then
  state.peak = {};
  state.last_stats = process.system.now();
  drop_window();
  if (state.sink != nullptr) state.sink->abandon_in_child();
}

}  // namespace llamalloc
