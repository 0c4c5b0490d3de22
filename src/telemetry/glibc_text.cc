// SPDX-License-Identifier: Apache-2.0
#include "telemetry/glibc_text.h"

namespace llamalloc {
namespace {

void write_part(const TextWriter& print, const char* name, size_t system, size_t in_use) {
  print("%s:\nsystem bytes     = %10zu\nin use bytes     = %10zu\n", name, system, in_use);
}

}  // namespace

void write_glibc_text(const Figures& figures, const TextWriter& print) {
  write_part(print, "Arena 0", figures.pages_backed, figures.allocated);
  write_part(print, "Total (incl. mmap)", figures.pages_backed + figures.direct_bytes,
             figures.allocated + figures.direct_bytes);
}

}  // namespace llamalloc
