// SPDX-License-Identifier: Apache-2.0
// jemalloc's malloc_stats_print: the lines and JSON members that tools read, in its layout, with
// our figures. What jemalloc has and we have not is left out; our own statistics follow.
#pragma once

#include "telemetry/figures.h"
#include "telemetry/text_writer.h"

namespace llamalloc {

// letters: jemalloc's options, or null. J gives JSON, g leaves out version and sizes, which never
// change. The others are of parts that we do not have.
void write_jemalloc_stats(const Figures& figures, const char* version, const char* letters,
                          const TextWriter& print);

}  // namespace llamalloc
