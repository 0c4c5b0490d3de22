// SPDX-License-Identifier: Apache-2.0
// What the functions of this process are called, for threads that meet a context first
// (placement/loaded_code.h), where a model has names. The modules of the start are read when the
// model is loaded. One that is loaded later (dlopen) is read by the first thread that meets a
// context in it, once: in about the time that the loader took for it, and never where that could
// hang or harm the process. Then it is the worker that answers.
#pragma once

#include "base/units.h"
#include "os/lock.h"
#include "placement/loaded_code.h"
#include "predict/named_functions.h"

namespace llamalloc {

class ModelNames final : public KnownNames {
 public:
  // Reads the modules that are loaded now. False: no memory.
  bool open(const ModelEvidence& evidence);
  bool name_frame(uintptr_t return_address, CodeModule* last, FrameName* out) override;
  void after_fork_in_child() { adding_.reset(); }

 private:
  static constexpr Nanos kPause = Nanos::seconds(10);  // after a module could not be read

  const NamedFunctions::Module* add_module(uintptr_t return_address, uint64_t build);

  NamedFunctions functions_;
  Lock adding_{LockRank::model_names};
  Nanos next_try_ GUARDED_BY(adding_){};
};

extern ModelNames model_names;

}  // namespace llamalloc
