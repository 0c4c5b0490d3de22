// SPDX-License-Identifier: Apache-2.0
// What the context worker asks about the code that runs: stacks, names, modules. Implemented for a
// process by runtime/process_code.h, for tests by a table. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/code_key.h"
#include "base/stack_trace.h"
#include "predict/frame_name_key.h"
#include "predict/miss_queue.h"

namespace llamalloc {

class LoadedCode {
 public:
  // The modules that are loaded now stay, as far as marks go. False: no memory.
  virtual bool watch(MetadataArena& arena) = 0;
  // The marks of all modules unloaded since the last call, and kUnknownModule; 0: none was. What is
  // cached of their unwind rows is dropped.
  virtual uint8_t look_for_unloaded() = 0;
  // The mark of the module around a return address (predict/prediction_cache.h).
  virtual uint8_t mark_of(uintptr_t return_address) const = 0;
  // Whether it lies in a module that is still loaded, and was before the last look.
  virtual bool stayed(uintptr_t return_address) const = 0;

  // The return addresses of a copied stack.
  virtual void unwind(const StackSnapshot& copy, StackTrace* out) = 0;
  // Bytes from the stack pointer at a return address to just above the return address of the
  // function around it; 0: unknown.
  virtual uint32_t frame_bytes(uintptr_t return_address) = 0;
  // The frame name of contracts/stack_tokens.md, 0-terminated, cut to room bytes. False: for want
  // of a descriptor or memory it may be another one later.
  virtual bool name_frame(uintptr_t return_address, char* out, size_t room) = 0;

 protected:
  ~LoadedCode() = default;
};

// The same names, for whoever meets a context first: in any thread, inside malloc, without waiting.
class KnownNames {
 public:
  // Of a return address on the caller's own stack: as far as the model knows it. last: where the
  // one before it lay, in one stack; first: nowhere. False: not now.
  virtual bool name_frame(uintptr_t return_address, CodeModule* last, FrameName* out) = 0;

 protected:
  ~KnownNames() = default;
};

}  // namespace llamalloc
