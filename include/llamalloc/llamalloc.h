/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of llamalloc: what malloc does not offer. All functions are thread-safe and may
 * be looked up with dlsym, so that a program runs with and without the library. */
#ifndef LLAMALLOC_LLAMALLOC_H
#define LLAMALLOC_LLAMALLOC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH" */
const char* llamalloc_version(void);

/* Changes an option at run time: "sample_interval", "release_delay", "retain", with a value like
 * "64KiB" or "250ms". 0, or EINVAL for a name or value that is not known. */
int llamalloc_set(const char* name, const char* value);

/* Does something now: "profile" (argument: path of the profile to write), "release" (give all empty
 * huge pages back; argument NULL), "sampling" ("on" or "off"). 0; EINVAL for an unknown act; EIO if
 * a file could not be written (stderr says why). */
int llamalloc_act(const char* act, const char* argument);

/* Writes the statistics (contracts/control_protocol.md) to `buffer`, 0-terminated and cut to `room`
 * bytes; returns the bytes that the whole text needs without the 0. */
size_t llamalloc_stats_json(char* buffer, size_t room);

#ifdef __cplusplus
}
#endif

#endif
