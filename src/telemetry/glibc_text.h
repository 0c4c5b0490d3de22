// SPDX-License-Identifier: Apache-2.0
// The lines of glibc's malloc_stats, without its maxima of mappings, which we do not keep.
#pragma once

#include "telemetry/figures.h"
#include "telemetry/text_writer.h"

namespace llamalloc {

void write_glibc_text(const Figures& figures, const TextWriter& print);

}  // namespace llamalloc
