// SPDX-License-Identifier: Apache-2.0
// Functions that are looked up by name at run time. Null: there is none. In a program linked
// statically there never is. It may allocate for an error that nobody reads, and change errno.
#pragma once

namespace llamalloc {

// The first in the order of the process' libraries.
void* first_symbol(const char* name);
// The first after the library or program that we are part of: what an exported name of ours hides.
void* next_symbol(const char* name);

// The same as a function of type F.
template <typename F>
F* first_function(const char* name) {
  return reinterpret_cast<F*>(first_symbol(name));
}
template <typename F>
F* next_function(const char* name) {
  return reinterpret_cast<F*>(next_symbol(name));
}

}  // namespace llamalloc
