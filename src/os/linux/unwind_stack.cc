// SPDX-License-Identifier: Apache-2.0
// Windows on the calling thread's stack, and copies of it.
#include "os/linux/unwind_stack.h"

#include "base/units.h"

namespace llamalloc {
namespace {

// A copy that reads whatever the stack holds: no interceptor, no red zone.
void copy_stack(char* to, const char* from, size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  for (size_t i = 0; i < bytes; ++i) reinterpret_cast<volatile char*>(to)[i] = from[i];
#endif
}

}  // namespace

StackWindow current_stack_window(uintptr_t sp) {
  const char* image = reinterpret_cast<const char*>(sp);
  const StackBounds own = own_stack_down_to(sp);
  if (own.contains(sp)) return {sp, own.high, image};
  return {sp, align_up(sp + 1, kSmallPage), image};
}

bool take_snapshot(uintptr_t return_address, char* buffer, size_t room, StackSnapshot* out) {
  const Registers here = capture_registers();
  const StackWindow live = current_stack_window(here.sp);
  *out = {{return_address, 0, 0, 0}, {0, 0, buffer}};
  if (!find_caller(here, live, return_address, &out->registers)) return false;
  const uintptr_t low = out->registers.sp;
  if (low > live.high) return false;  // a frame whose return address did not come from the stack
  const size_t bytes = live.high - low < room ? live.high - low : room;
  copy_stack(buffer, live.image + (low - live.low), bytes);
  out->window = {low, low + bytes, buffer};
  return true;
}

}  // namespace llamalloc
