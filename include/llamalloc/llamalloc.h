/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of llamalloc: what malloc does not offer. All functions are thread-safe, return
 * 0 or an errno value where they return int, and may be looked up with dlsym (or declared weak), so
 * that a program runs with and without the library. */
#ifndef LLAMALLOC_LLAMALLOC_H
#define LLAMALLOC_LLAMALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH" */
const char* llamalloc_version(void);

/* Reads what is called `name`: a statistic (docs/statistics.md) or an option (docs/options.md),
 * as a uint64_t (flags 0 or 1, times in nanoseconds) or, for options of kind text or reaction and
 * for "version", "model_state" and "tag" (the calling thread's), as a 0-terminated text.
 * *bytes: room at `out`; then the size of the value, with the 0 of a text. ENOENT for an unknown
 * name, ERANGE if there is too little room (nothing is written; *bytes says how much it takes).
 *
 *   uint64_t allocated;
 *   size_t bytes = sizeof(allocated);
 *   if (llamalloc_get("allocated", &allocated, &bytes) == 0) ... */
int llamalloc_get(const char* name, void* out, size_t* bytes);

/* Changes an option at run time: "sample_interval", "release_delay", "retain" or "on_misuse", with
 * a value like "64KiB", "250ms" or "report". ENOENT for a name that is not known or may not change
 * any more, EINVAL for a value that cannot be meant. */
int llamalloc_set(const char* name, const char* value);

/* Does something now. ENOENT for an unknown act, EINVAL for a wrong argument, EIO if a file could
 * not be written (stderr says why).
 *   "release"   argument NULL: all empty memory goes back to the system
 *   "sampling"  "on" or "off"
 *   "profile"   path of the lifetime profile to write
 *   "stats"     path of the statistics to write, as JSON */
int llamalloc_act(const char* act, const char* argument);

/* Writes the statistics (contracts/control_protocol.md) to `buffer`, 0-terminated and cut to `room`
 * bytes; returns the bytes that the whole text needs without the 0. */
size_t llamalloc_stats_json(char* buffer, size_t room);

/* Names what the calling thread does from now on; NULL or "" for nothing. Sampled objects carry it
 * into the profile (label `tag`) and into the statistics (`tags`). The first 63 bytes count, and
 * 254 different names; all others together are "other". The result is the name before, which stays
 * valid, to be put back. Costs no lock once the name is known. */
const char* llamalloc_tag(const char* tag);

#ifdef __cplusplus
} /* extern "C" */

namespace llamalloc {

/* What the thread does until the end of the scope. */
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
