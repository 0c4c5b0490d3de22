// SPDX-License-Identifier: Apache-2.0
// The recording library only: an end of the process that runs no exit handlers keeps its events
// too.
#include <stdlib.h>
#include <unistd.h>

#include "recorder/recorder.h"
#include "shim/call_site.h"

// That the first two do not return is in the C library's declarations.
extern "C" {

LLAMALLOC_EXPORT void _exit(int status) {
  llamalloc::end_process(status);
}

LLAMALLOC_EXPORT void _Exit(int status) {
  llamalloc::end_process(status);
}

LLAMALLOC_EXPORT int daemon(int keeps_folder, int keeps_files) {
  return llamalloc::become_daemon(keeps_folder != 0, keeps_files != 0);
}

}  // extern "C"
