// SPDX-License-Identifier: Apache-2.0
// jemalloc's malloc_stats_print, for tools that read what it prints.
#include "runtime/figures.h"
#include "runtime/jemalloc.h"
#include "runtime/output.h"
#include "shim/call_site.h"
#include "telemetry/jemalloc_stats.h"

using namespace llamalloc;

extern "C" LLAMALLOC_EXPORT void malloc_stats_print(TextWriter::Write* write, void* data,
                                                    const char* options) {
  Figures figures = current_figures();
  add_figures_of_jemalloc(&figures);
  write_jemalloc_stats(figures, LLAMALLOC_VERSION, options,
                       {write == nullptr ? write_to_stderr : write, data});
}
