// SPDX-License-Identifier: Apache-2.0
// Where a stack ends, and copies of stacks.
//
//   main thread     sp ......................... __libc_stack_end | arguments, environment
//   other threads   guard | sp .................. thread's own data | thread control block
#include "os/linux/unwind_stack.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/errno_keeper.h"
#include "base/units.h"

extern "C" void* __libc_stack_end;

namespace llamalloc {
namespace {

constexpr size_t kMaxStack = size_t{64} << 20;  // Linux keeps 128 MiB free below the main stack
constexpr size_t kMinStack = size_t{1} << 20;

// How far below its control block a thread's stack may reach: the limit from which glibc takes the
// default size of stacks. A stack that was made larger gives truncated traces when that deep.
size_t thread_stack_limit() {
  static std::atomic<size_t> cached{0};
  const size_t known = cached.load(std::memory_order_relaxed);
  if (known != 0) return known;
  const ErrnoKeeper keep;
  rlimit64 limit{};
  size_t bytes = size_t{8} << 20;
  if (syscall(SYS_prlimit64, 0, RLIMIT_STACK, nullptr, &limit) == 0 &&
      limit.rlim_cur != RLIM64_INFINITY)
    bytes = limit.rlim_cur;
  if (bytes > kMaxStack) bytes = kMaxStack;
  if (bytes < kMinStack) bytes = kMinStack;
  cached.store(bytes, std::memory_order_relaxed);
  return bytes;
}

// A copy that reads whatever the stack holds: no interceptor, no red zone.
void copy_stack(char* to, const char* from, size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  for (size_t i = 0; i < bytes; ++i) reinterpret_cast<volatile char*>(to)[i] = from[i];
#endif
}

}  // namespace

uintptr_t main_stack_end() {
  return align_up(reinterpret_cast<uintptr_t>(__libc_stack_end), kSmallPage);
}

StackWindow current_stack_window(uintptr_t sp) {
  const char* image = reinterpret_cast<const char*>(sp);
  const uintptr_t main_end = main_stack_end();
  if (main_end - sp <= kMaxStack) return {sp, main_end, image};
  const uintptr_t control_block = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  if (control_block - sp <= thread_stack_limit()) return {sp, control_block, image};
  return {sp, align_up(sp + 1, kSmallPage), image};
}

bool take_snapshot(uintptr_t return_address, char* buffer, size_t room, StackSnapshot* out) {
  const Registers here = capture_registers();
  const StackWindow live = current_stack_window(here.sp);
  *out = {{return_address, 0, 0, 0}, {0, 0, buffer}};
  if (!find_caller(here, live, return_address, &out->registers)) return false;
  const uintptr_t low = out->registers.sp;
  const size_t bytes = live.high - low < room ? live.high - low : room;
  copy_stack(buffer, live.image + (low - live.low), bytes);
  out->window = {low, low + bytes, buffer};
  return true;
}

}  // namespace llamalloc
