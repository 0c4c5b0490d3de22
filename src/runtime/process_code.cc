// SPDX-License-Identifier: Apache-2.0
#include "runtime/process_code.h"

#include "os/code_shape.h"
#include "os/unwind.h"
#include "predict/prediction_cache.h"

namespace llamalloc {

static_assert(kUnknownModule == ModuleWatch::kUnknown);

uint8_t ProcessCode::look_for_unloaded() {
  const uint8_t gone = modules_.look();
  if (gone != 0) unwind_cache_clear();
  return gone;
}

uint8_t ProcessCode::mark_of(uintptr_t return_address) const {
  return modules_.mark_of(return_address);
}

bool ProcessCode::stayed(uintptr_t return_address) const {
  return modules_.stayed(return_address);
}

void ProcessCode::unwind(const StackSnapshot& copy, StackTrace* out) {
  unwind_snapshot(copy, out);
}

uint32_t ProcessCode::frame_bytes(uintptr_t return_address) {
  return unwind_frame_bytes(return_address);
}

bool ProcessCode::name_frame(uintptr_t return_address, char* out, size_t room) {
  symboliser_->frame_name(return_address, out, room);
  return !symboliser_->was_starved();
}

void ProcessFunctions::visit_all(Visitor& visitor) {
  visit_functions(
      [](void* to, const LoadedFunction& function) { static_cast<Visitor*>(to)->visit(function); },
      &visitor);
}

uint32_t ProcessFunctions::find_call(uintptr_t function, const CallShape& call, uint32_t* offsets) {
  return llamalloc::find_call(function, call, offsets);
}

bool ProcessFunctions::look_at(uintptr_t return_address, CodeShape* out) {
  return shape_of_code(return_address, out);
}

}  // namespace llamalloc
