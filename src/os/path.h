// SPDX-License-Identifier: Apache-2.0
// What a path leads to, and the path of the program that runs.
#pragma once

#include <cstddef>

namespace llamalloc {

bool is_folder(const char* path);
// The path of the program's file, 0-terminated, cut to room bytes; a file that was replaced or
// removed meanwhile keeps its name. Empty where the system does not say.
void program_path(char* out, size_t room);
// The last part of it.
void program_name(char* out, size_t room);

}  // namespace llamalloc
