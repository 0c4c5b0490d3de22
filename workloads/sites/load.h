// SPDX-License-Identifier: Apache-2.0
// What a way is: how the program tells its two allocation sites apart (ways/*.cc).
//
//   load.cc --- make(kind, size) ---> one file of ways/ ---> malloc
//
// load.cc calls make() at one place only, so whatever tells the two kinds apart is in the way's
// file.
#pragma once

#include <cstring>

#include "../load_program.h"

enum class Kind { temporary, survivor };

// Not inlined, cloned or analysed, at any level of optimisation.
#if defined(__clang__)
#define KEPT [[gnu::noinline]]
#else
#define KEPT [[gnu::noipa]]
#endif

// A new object of `size` bytes, written to. Never null.
void* make(Kind kind, size_t size);
void release(void* object);

// Hides a value from the compiler: it can neither merge calls nor split them by kind, nor turn the
// call that returned the value into a jump.
template <class T>
inline T opaque(T value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Writes to an object. It also keeps the call before it from being a tail call.
inline void* stamped(void* object, int byte, size_t size) {
  if (!object) out_of_memory();
  std::memset(object, byte, size);
  return object;
}
