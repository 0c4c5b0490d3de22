// SPDX-License-Identifier: Apache-2.0
// Whether a text begins with another one.
#pragma once

#include <cstring>

namespace llamalloc {

inline bool begins(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

}  // namespace llamalloc
