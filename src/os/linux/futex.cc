// SPDX-License-Identifier: Apache-2.0
#include "os/linux/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/errno_keeper.h"

#if defined(__x86_64__)
extern "C" __attribute__((visibility("hidden"))) const char llamalloc_after_futex_wait[];
#endif

namespace llamalloc {

// Nothing in this file calls it, so there is one copy, and the label is defined once.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, const timespec* timeout) {
#if defined(__x86_64__)
  long result = SYS_futex;
  register const timespec* until asm("r10") = timeout;
  asm volatile(
      "syscall\n"
      ".globl llamalloc_after_futex_wait\n"
      ".hidden llamalloc_after_futex_wait\n"
      "llamalloc_after_futex_wait:"
      : "+a"(result)
      : "D"(&word), "S"(long{FUTEX_WAIT_PRIVATE}), "d"(static_cast<unsigned long>(expected)),
        "r"(until)
      : "rcx", "r11", "memory");
#else
  const ErrnoKeeper keep;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, timeout,
          nullptr, 0);
#endif
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  const ErrnoKeeper keep;
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr,
          nullptr, 0);
}

uintptr_t futex_wait_pc() {
#if defined(__x86_64__)
  return reinterpret_cast<uintptr_t>(llamalloc_after_futex_wait);
#else
  return 0;
#endif
}

}  // namespace llamalloc
