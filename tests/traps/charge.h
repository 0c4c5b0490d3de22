/* SPDX-License-Identifier: Apache-2.0 */
/* What the control group that MEMORY_GROUP names is charged for, page cache apart: versions 1 and
   2, as in llamalloc/running/charge.py. trap_list.py makes the group, where one can be made. */
#pragma once

#include "trap.h"

/* Of the group's file; the first line that begins with `name`, or the first line. */
static inline long group_number(const char* folder, const char* file, const char* name) {
  char path[400], text[8192];
  snprintf(path, sizeof(path), "%s/%s", folder, file);
  if (read_file(path, text, sizeof(text)) < 0) return -1;
  const size_t length = strlen(name);
  for (const char* line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line != '\0')
    if (strncmp(line, name, length) == 0) return atol(line + length);
  return -1;
}

/* -1: there is no group. */
static inline long charge_kib(void) {
  const char* folder = getenv("MEMORY_GROUP");
  if (folder == NULL) return -1;
  long usage = group_number(folder, "memory.usage_in_bytes", "");
  const int first = usage >= 0;
  if (!first) usage = group_number(folder, "memory.current", "");
  const long files = group_number(folder, "memory.stat", first ? "total_cache " : "file ");
  const long shared = group_number(folder, "memory.stat", first ? "total_shmem " : "shmem ");
  if (usage < 0 || files < 0 || shared < 0) die("%s cannot be read", folder);
  return (usage - (files - shared)) / 1024;
}
