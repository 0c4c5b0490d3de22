// SPDX-License-Identifier: Apache-2.0
// Writes the statistics in the format of glibc's malloc_info; docs/api.md explains the fields.
#pragma once

#include "os/byte_sink.h"
#include "telemetry/figures.h"

namespace llamalloc {

// False: the sink failed.
bool write_glibc_xml(const Figures& figures, ByteSink& sink);

}  // namespace llamalloc
