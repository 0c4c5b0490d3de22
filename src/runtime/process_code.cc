// SPDX-License-Identifier: Apache-2.0
#include "runtime/process_code.h"

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

}  // namespace llamalloc
