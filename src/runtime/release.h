// SPDX-License-Identifier: Apache-2.0
// Memory that goes back to the system because somebody asked: `release`, malloc_trim, mallctl.
#pragma once

#include "engine/engine.h"

namespace llamalloc {

// Returns free memory to the system now, all that can go back, but keeps `keep` bytes of empty huge
// pages.
Released release_memory(size_t keep);

}  // namespace llamalloc
