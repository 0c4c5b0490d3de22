// SPDX-License-Identifier: Apache-2.0
// What carrying over to another build asks about the functions of this one. Implemented for a
// process by runtime/process_code.h, for tests by a table.
#pragma once

#include <cstdint>

#include "base/function_shape.h"

namespace llamalloc {

class LoadedFunctions {
 public:
  class Visitor {
   public:
    virtual void visit(const LoadedFunction& function) = 0;

   protected:
    ~Visitor() = default;
  };
  // Each function of each loaded module.
  virtual void visit_all(Visitor& visitor) = 0;
  // As find_call (os/code_shape.h).
  virtual uint32_t find_call(uintptr_t function, const CallShape& call, uint32_t* offsets) = 0;
  // Of the function around a return address. False: it is not known.
  virtual bool look_at(uintptr_t return_address, CodeShape* out) = 0;

 protected:
  ~LoadedFunctions() = default;
};

}  // namespace llamalloc
