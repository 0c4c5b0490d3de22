// SPDX-License-Identifier: Apache-2.0
#include "runtime/model_names.h"

#include "os/unwind.h"
#include "runtime/process.h"

namespace llamalloc {

constinit ModelNames model_names;

bool ModelNames::open(const ModelEvidence& evidence) {
  if (!functions_.open(evidence, process.arena, process.system)) return false;
  visit_function_names(functions_, process.system);
  return true;
}

bool ModelNames::name_frame(uintptr_t return_address, CodeModule* last, FrameName* out) {
  *out = {};
  if (!last->contains(return_address - 1) && !find_code_module(return_address, last)) return false;
  const NamedFunctions::Module* module = functions_.find(last->build);
  if (module == nullptr) module = add_module(return_address, last->build);
  if (module == nullptr) return false;
  if (module->find(return_address - 1 - last->low, out)) return true;
  const uintptr_t start = module->knows_unnamed() ? unwind_function_start(return_address - 1) : 0;
  *out = module->unnamed(start != 0, start - last->low);
  return true;
}

// Waits for nobody: while another thread adds one, and in a signal handler that interrupted this
// one there, it is not known. A filter of the program may end it for opening a file.
const NamedFunctions::Module* ModelNames::add_module(uintptr_t return_address, uint64_t build) {
  if (!adding_.try_lock()) return nullptr;
  const Nanos now = process.system.now();
  if (now >= next_try_ && !process_world.program_filters_calls())
    visit_function_names_at(return_address, functions_, process.system);
  const NamedFunctions::Module* const module = functions_.find(build);
  if (module == nullptr && now >= next_try_) next_try_ = now + kPause;
  adding_.unlock();
  return module;
}

}  // namespace llamalloc
