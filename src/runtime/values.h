// SPDX-License-Identifier: Apache-2.0
// Access by name, for the C API and the control socket: options, statistics, and acts (commands of
// llamalloc_act).
#pragma once

#include "base/options.h"
#include "base/units.h"

namespace llamalloc {

// Samples begin, or go on as the options say now.
void start_sampling(Nanos now);

// A statistic, an option, or "model_state", "idle_caches", "learning", "segregation", "tag" of the
// calling thread. False: no such name.
bool read_value(const char* name, Options::Value* out);

// 0; ENOENT: no such name, or it may not change at run time; EINVAL: invalid value.
int change_option(const char* name, const char* value);

// 0; ENOENT: no such act; EINVAL: its argument is wrong; EIO: the file could not be written.
int act(const char* name, const char* argument);

// Sets the calling thread's tag (profile/tag_table.h). Returns the previous tag.
const char* exchange_tag(const char* tag);

}  // namespace llamalloc
