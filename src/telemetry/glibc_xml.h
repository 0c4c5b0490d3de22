// SPDX-License-Identifier: Apache-2.0
// The figures as malloc_info of glibc writes them; docs/api.md has the mapping of its fields.
#pragma once

#include "os/byte_sink.h"
#include "telemetry/figures.h"

namespace llamalloc {

// False: the sink failed.
bool write_glibc_xml(const Figures& figures, ByteSink& sink);

}  // namespace llamalloc
