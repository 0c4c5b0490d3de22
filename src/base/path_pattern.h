// SPDX-License-Identifier: Apache-2.0
// Words of a path that differ from process to process, so that many may share one option.
//
//   %p   the process ID           /var/log/heap.%p.pb.gz  ->  /var/log/heap.4711.pb.gz
//   %e   the program's name
//   %t   when the program started, in seconds since 1970; its forked children have the same
//   %%   a percent sign
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

struct PathWords {
  int pid;
  const char* program;
  int64_t started;  // Unix seconds
};

// What a message says of a % that begins none of them.
inline constexpr char kPathWords[] =
    "a percent sign in a path is %%; %p is the PID, %e the program, %t the start time";

// Whether each % of the text begins one of the words above.
bool is_path_pattern(const char* text, size_t length);
// Whether two processes with the same pattern have different paths: it has a %p.
bool tells_processes_apart(const char* pattern);
// False: `out` has no room for the path; it is then empty. A % that begins no word stays as it is.
bool fill_path(const char* pattern, const PathWords& words, char* out, size_t room);

}  // namespace llamalloc
