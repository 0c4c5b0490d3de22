// SPDX-License-Identifier: Apache-2.0
// What stays of a function in other builds of its program as long as it does not change itself:
// neither its name nor its address, so that it holds in stripped programs, too.
#pragma once

#include <cstdint>

namespace llamalloc {

struct FunctionShape {
  uint64_t self = 0;  // of its module's name, its length, and its unwind instructions; never 0
  // Of the next function in front of it, in its module, that looks other, and how far that is.
  uint32_t before = 0;
  uint32_t after = 0;  // the same behind it
  friend bool operator==(const FunctionShape&, const FunctionShape&) = default;
};

// Which call of a function a return address belongs to. In another build, in which the function is
// another one but stands between the same two, it is the same one if there are as many; a single
// one may have become several.
struct CallShape {
  uint32_t callee = 0;   // of the function that is called; 0: not one of the module's
  uint16_t ordinal = 0;  // among the function's direct calls of such a callee, from 0
  uint16_t count = 0;    // of these; 0: it is no direct call
  static constexpr uint32_t kMostPlaces = 4;
  friend bool operator==(const CallShape&, const CallShape&) = default;
};

// A return address, by the function around it.
struct CodeShape {
  FunctionShape function;
  CallShape call;
  uint32_t offset = 0;  // bytes from the function's begin
  uint32_t build = 0;   // the lowest bits of that of its module
  uint64_t code = 0;    // code_key, in this build
};

// A function of a loaded module.
struct LoadedFunction {
  FunctionShape shape;
  uint64_t build = 0;  // of its module (base/code_key.h)
  uint64_t begin = 0;  // its offset in the module
  uintptr_t address = 0;
};

}  // namespace llamalloc
