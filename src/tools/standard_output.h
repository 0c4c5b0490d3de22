// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>

namespace llamalloc {

// Whether all that was printed is written: a disk may be full.
inline bool standard_output_is_written() {
  return fflush(stdout) == 0 && ferror(stdout) == 0;
}

}  // namespace llamalloc
