// SPDX-License-Identifier: Apache-2.0
// The part of the stack walk that snapshots use.
#pragma once

#include "os/unwind.h"

namespace llamalloc {

// The registers of the first frame from `start` outward whose pc is return_address; false: none.
bool find_caller(const Registers& start, const StackWindow& window, uintptr_t return_address,
                 Registers* out);

}  // namespace llamalloc
