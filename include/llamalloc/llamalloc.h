/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of llamalloc, beyond malloc. All functions are thread-safe. A function that
 * returns int returns 0 or an errno value. A program may look the functions up with dlsym or
 * declare them weak; it then runs with and without the library. */
#ifndef LLAMALLOC_LLAMALLOC_H
#define LLAMALLOC_LLAMALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH" */
const char* llamalloc_version(void);

/* Reads the statistic (docs/statistics.md), option (docs/options.md) or other value
 * (docs/commands.md) called `name`. The value is a uint64_t (flags are 0 or 1, times are in
 * nanoseconds). Options of kind text or choice, and the other values except "window", are
 * 0-terminated texts.
 * *bytes holds the room at `out`; afterwards it holds the size of the value, with the 0 of a text.
 * ENOENT: unknown name. ERANGE: too little room; nothing is written, *bytes is the size needed.
 *
 *   uint64_t allocated;
 *   size_t bytes = sizeof(allocated);
 *   if (llamalloc_get("allocated", &allocated, &bytes) == 0) ... */
int llamalloc_get(const char* name, void* out, size_t* bytes);

/* Changes an option at run time, one of those at the end of docs/commands.md, to a value like
 * "64KiB", "250ms" or "report". ENOENT: the name is unknown, or the option cannot change at run
 * time. EINVAL: invalid value. */
int llamalloc_set(const char* name, const char* value);

/* Runs a command now. ENOENT: unknown command. EINVAL: wrong argument. EIO: a file could not be
 * written (stderr says why).
 *   "release"   argument NULL: all free memory that can go is returned to the system
 *   "sampling"  "on" or "off"
 *   "profile"   path of the lifetime profile to write
 *   "heap"      path of the profile to write of what is in use now
 *   "window"    "open", "close", or path of the profile to write of what happened since "open"
 *   "stats"     path of the statistics to write, as JSON */
int llamalloc_act(const char* act, const char* argument);

/* Writes the statistics (contracts/control_protocol.md) to `buffer`, 0-terminated and cut to `room`
 * bytes. Returns the length of the whole text without the 0. */
size_t llamalloc_stats_json(char* buffer, size_t room);

/* Names what the calling thread is doing from now on; NULL or "" means nothing. The profile (label
 * `tag`) and the statistics (`tags`) give this name to sampled objects. Only the first 63 bytes
 * count. There may be 254 different names; all further ones become "other". Returns the previous
 * name, which stays valid, so that the caller can restore it. Takes no lock for a known name. */
const char* llamalloc_tag(const char* tag);

#ifdef __cplusplus
} /* extern "C" */

namespace llamalloc {

/* Sets the tag of the calling thread until the end of the scope. */
class ScopedTag {
 public:
  explicit ScopedTag(const char* tag) : before_(llamalloc_tag(tag)) {}
  ~ScopedTag() { llamalloc_tag(before_); }
  ScopedTag(const ScopedTag&) = delete;
  ScopedTag& operator=(const ScopedTag&) = delete;

 private:
  const char* before_;
};

} /* namespace llamalloc */
#endif

#endif
