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

/* The documents named below are in the source tree. The tables that they are made from are
 * contracts/NAME.def there, and share/llamalloc/contracts/NAME.def in an installed tree. */

/* Reads what is called `name`: a statistic (docs/statistics.md), an option (docs/options.md), or
 * one of the values that docs/commands.md lists at `get`. The value of a statistic, of an option
 * that is a number, a time or a flag, and of "window" is a uint64_t; flags are 0 or 1, times are in
 * nanoseconds. All others are 0-terminated texts.
 * *bytes holds the room at `out`; afterwards it holds the size of the value, with the 0 of a text.
 * ENOENT: unknown name. ERANGE: too little room; nothing is written, *bytes is the size needed.
 *
 *   uint64_t allocated;
 *   size_t bytes = sizeof(allocated);
 *   if (llamalloc_get("allocated", &allocated, &bytes) == 0) ... */
int llamalloc_get(const char* name, void* out, size_t* bytes);

/* Changes an option at run time, with a value like "64KiB", "250ms" or "report". docs/options.md
 * marks these options `live`. ENOENT: the name is unknown, or the option cannot change at run time.
 * EINVAL: invalid value. */
int llamalloc_set(const char* name, const char* value);

/* Runs a command now, such as llamalloc_act("release", NULL) or llamalloc_act("profile", PATH).
 * docs/commands.md lists the commands; those with an ARGUMENT IN C can be run so. ENOENT: unknown
 * command. EINVAL: wrong argument. EIO: a file could not be written (stderr says why), or no window
 * is open. */
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
