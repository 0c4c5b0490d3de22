// SPDX-License-Identifier: Apache-2.0
// Text on stderr without a mark of ours: where another library's own words are expected.
#pragma once

namespace llamalloc {

// Writes the text in one call, cut at 500 bytes; errno stays. No thread is cancelled in it.
void print_plain(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace llamalloc
