// SPDX-License-Identifier: Apache-2.0
// Access by name, for the C API and the control socket: options, statistics, and acts (commands of
// llamalloc_act).
#pragma once

#include "base/options.h"
#include "base/units.h"

namespace llamalloc {

// Samples begin, or go on as the options say now.
void start_sampling(Nanos now);

// A statistic, an option, or a NAMED_VALUE of contracts/commands.def. False: no such name.
bool read_value(const char* name, Options::Value* out);

// 0; ENOENT: no such name, or it may not change at run time; EINVAL: invalid value.
int change_option(const char* name, const char* value);

// The parameters of mallopt(3), by the numbers of glibc's malloc.h.
enum class GlibcParameter : int {
  mxfast = 1,
  trim_threshold = -1,
  top_pad = -2,
  mmap_threshold = -3,
  mmap_max = -4,
  check_action = -5,
  perturb = -6,
  arena_test = -7,
  arena_max = -8,
};
// 1, or 0 for a parameter or value that the manual page does not know. What our heap has no use for
// has no effect.
int change_glibc_parameter(GlibcParameter parameter, int value);

// 0; ENOENT: no such act; EINVAL: its argument is wrong; EIO: the file could not be written. Then
// *why says why; without it, a line on stderr does.
int act(const char* name, const char* argument, const char** why = nullptr);

// Sets the calling thread's tag (profile/tag_table.h). Returns the previous tag.
const char* exchange_tag(const char* tag);

}  // namespace llamalloc
