// SPDX-License-Identifier: Apache-2.0
// The files that the library writes: profile and statistics. An error (full disk, no permission)
// gives one line on stderr, and the program continues.
#pragma once

#include "base/units.h"
#include "os/byte_sink.h"
#include "profile/profile_view.h"
#include "telemetry/snapshot.h"

namespace llamalloc {

// At start: prints a line about each path that cannot be written. Writes nothing.
void check_output_paths();
// Called by the worker: looks up the function names of new samples while their code is still
// loaded.
void name_sampled_frames();
// Called by the worker: flushes the profile every profile_flush, ends it after profile_duration.
void write_profile_if_due(Nanos now);
// Whether this process writes its statistics before its end: a forked child does with %p in the
// path only, as there may be many of them.
bool writes_stats_while_running();
// Called by the worker: writes the statistics every stats_flush, and notes those of the peak.
void write_stats_if_due(Nanos now);
// The caller holds background.work_lock. False, with a line on stderr, if it could not be written.
bool write_profile(const char* path, bool at_exit, ProfileKind kind = ProfileKind::lifetimes,
                   const ProfileWindow* window = nullptr);
// The caller holds background.work_lock. What was seen so far is noted; false: no memory. Then the
// profile of what happened since; false: no window, or as above.
bool open_window();
void close_window();
Nanos window_age();  // since it was opened; 0: none is open. Without the lock
bool write_profile_window(const char* path);
bool write_stats(const char* path);
// One of those, as a command or (`why` null) a call of the program wants it. *why is the reason if
// it fails, in place of a line on stderr.
bool write_for(const char** why, bool (*write)(const char*), const char* path);
// contracts/control_protocol.md, "Statistics JSON". False: no memory, nothing was written.
bool write_stats_json(ByteSink& sink);
// The counters as text on stderr.
void print_summary();
// Text without a mark of ours, as TextWriter::Write (telemetry/text_writer.h).
void write_to_stderr(void*, const char* text);
// At the end of the process: profile and statistics as configured.
void write_at_exit();
// In a forked child: its own profile, at a path with its pid.
void output_after_fork_in_child();

}  // namespace llamalloc
