// SPDX-License-Identifier: Apache-2.0
// The code of this process, for the context worker (placement/loaded_code.h) and for what was
// learned in another build (learning/loaded_functions.h). Both take the loader's lock; the first
// reads ELF files, under the worker's lock.
#pragma once

#include "learning/loaded_functions.h"
#include "os/module_watch.h"
#include "os/symbols.h"
#include "placement/loaded_code.h"

namespace llamalloc {

class ProcessCode final : public LoadedCode {
 public:
  // Names come from there; before the first name is asked for. False: null.
  bool name_by(Symboliser* symboliser) {
    symboliser_ = symboliser;
    return symboliser != nullptr;
  }

  bool watch(MetadataArena& arena) override { return modules_.open(arena); }
  uint8_t look_for_unloaded() override;
  uint8_t mark_of(uintptr_t return_address) const override;
  bool stayed(uintptr_t return_address) const override;
  void unwind(const StackSnapshot& copy, StackTrace* out) override;
  uint32_t frame_bytes(uintptr_t return_address) override;
  bool name_frame(uintptr_t return_address, char* out, size_t room) override;

 private:
  ModuleWatch modules_;
  Symboliser* symboliser_ = nullptr;
};

class ProcessFunctions final : public LoadedFunctions {
 public:
  void visit_all(Visitor& visitor) override;
  uint32_t find_call(uintptr_t function, const CallShape& call, uint32_t* offsets) override;
  bool look_at(uintptr_t return_address, CodeShape* out) override;
};

}  // namespace llamalloc
