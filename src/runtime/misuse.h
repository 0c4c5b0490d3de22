// SPDX-License-Identifier: Apache-2.0
// Reports misuse of an object in one line on stderr: the address, the fault, the size class, the
// thread and, if the object is a live sample, the stack that allocated it. Then the process aborts,
// or continues as if the call had not been made (option `on_misuse`).
#pragma once

#include "heap/span.h"

namespace llamalloc {

// span: that of the object, or null. Returns only with on_misuse:report.
[[gnu::noinline, gnu::cold]] void report_misuse(const void* p, const Span* span, const char* format,
                                                ...) __attribute__((format(printf, 3, 4)));
// The same for a harmless fault, such as a wrong size that is not used: one line for each process,
// never an abort.
[[gnu::noinline, gnu::cold]] void note_wrong_size(const void* p, const Span* span, size_t given);

}  // namespace llamalloc
