// SPDX-License-Identifier: Apache-2.0
// The functions of the loaded modules by their shape (base/function_shape.h), read from the unwind
// tables, which are mapped in any case: no file is opened.
//
// All of it takes the loader's lock. Not inside malloc.
#pragma once

#include <cstdint>

#include "base/function_shape.h"

namespace llamalloc {

// False: no unwind table covers the return address.
bool shape_of_code(uintptr_t return_address, CodeShape* out);

// Calls visit(visitor, function) for each. 0.2 us a function.
using VisitFunction = void (*)(void* visitor, const LoadedFunction& function);
void visit_functions(VisitFunction visit, void* visitor);

// In the function that begins at the address: the offsets of the return addresses behind that call.
// How many there are, at most CallShape::kMostPlaces; 0: it is not known which one it is.
uint32_t find_call(uintptr_t function, const CallShape& call, uint32_t* offsets);

// A hash over the builds of the program and of the libraries that are loaded now, without this one.
uint64_t loaded_builds();
// How many modules were ever loaded.
uint64_t count_loads();

}  // namespace llamalloc
