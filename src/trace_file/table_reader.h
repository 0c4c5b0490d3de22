// SPDX-License-Identifier: Apache-2.0
// Reads the tables of a trace: every chunk that holds no events.
#pragma once

#include <string>

#include "trace_file/chunk_file.h"
#include "trace_file/trace_tables.h"

namespace llamalloc::trace {

struct Contents {
  Tables tables;
  std::string command;          // arguments joined by spaces
  bool ended_in_order = false;  // the program came to its end, and so did the recording
};

// False, with the error, if a table is damaged.
bool read_contents(const ChunkFile& file, Contents* out, std::string* error);

}  // namespace llamalloc::trace
