// SPDX-License-Identifier: Apache-2.0
// Call stacks in the manner of a C++ server, with names that tell something of lifetimes, as names
// of programs do: most contexts bear words of their kind, one in five those of another.
#pragma once

#include <string>
#include <vector>

#include "generator/lifetime.h"

namespace llamalloc::generator {

// The allocation site's function first, `main` last. `number` makes the stack unique.
std::vector<std::string> make_frames(const Lifetime& lifetime, uint32_t number, Random& random);

}  // namespace llamalloc::generator
