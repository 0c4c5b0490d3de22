// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llamalloc {

// The number of the processor that this thread ran on a moment ago. No system call where the C
// library has restartable sequences or the kernel's vDSO.
uint32_t this_processor();

}  // namespace llamalloc
