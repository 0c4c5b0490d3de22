// SPDX-License-Identifier: Apache-2.0
// glibc keeps {start, bytes, guard} of a thread's stack in the thread's descriptor, which begins at
// the control block. pthread_getattr_np reads those words too, but under a lock that it still holds
// when it calls malloc. So they are read here, and trusted only if they enclose the control block.
//
// Their place in the descriptor is learned from the main thread, where glibc writes
// {0, __libc_stack_end} (sysdeps/nptl/dl_tls_init_tp.c, since 2.34). A thread that clone made, and
// which shares the descriptor of another, has that thread's stack: its own lies outside.
#include "os/own_stack.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/errno_keeper.h"
#include "base/units.h"
#include "os/linux/readable.h"

extern "C" void* __libc_stack_end;

namespace llamalloc {
namespace {

constexpr size_t kMaxMainStack = size_t{64} << 20;  // what grew beyond gives truncated traces

uintptr_t control_block() {
  return reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
}
uintptr_t main_stack_start() {
  return reinterpret_cast<uintptr_t>(__libc_stack_end);
}

#if defined(__x86_64__)
struct StackRecord {
  uintptr_t start;  // with the guard
  size_t bytes;
  size_t guard;

  bool is_of_main() const { return start == 0 && bytes == main_stack_start(); }
  bool encloses(uintptr_t address) const {
    return start != 0 && guard < bytes && address - start > guard && address - start < bytes;
  }
};

// Of the descriptor, 0x900 bytes in glibc 2.36: behind its fixed header, and well before its end.
constexpr size_t kFirstOffset = 704, kLastOffset = 2048 - sizeof(StackRecord);

const StackRecord& record_at(size_t offset) {
  return *reinterpret_cast<const StackRecord*>(control_block() + offset);
}

// The first call of a process comes from its main thread. 0: not known.
size_t record_offset() {
  static std::atomic<size_t> known{0};
  size_t offset = known.load(std::memory_order_relaxed);
  if (__builtin_expect(offset != 0, 1)) return offset;
  for (offset = kFirstOffset; offset <= kLastOffset; offset += sizeof(uintptr_t)) {
    if (!record_at(offset).is_of_main()) continue;
    known.store(offset, std::memory_order_relaxed);
    return offset;
  }
  return 0;
}
#endif

// The lowest page that is known to belong to the main stack, which never shrinks. Relaxed: nothing
// is published with it, and a late reader knows less.
std::atomic<uintptr_t> main_low{0};

uintptr_t known_main_low() {
  const uintptr_t low = main_low.load(std::memory_order_relaxed);
  return low != 0 ? low : align_down(main_stack_start(), kSmallPage);
}

// Without a hole. Asked first: a read just below the stack would make it grow.
bool is_mapped(uintptr_t low, uintptr_t high) {
  constexpr size_t kPages = 256;
  unsigned char present[kPages];
  while (low < high) {
    const size_t bytes = std::min(high - low, kPages * kSmallPage);
    if (mincore(reinterpret_cast<void*>(high - bytes), bytes, present) != 0) return false;
    high -= bytes;
  }
  return true;
}

void look_down_to(uintptr_t sp) {
  const ErrnoKeeper keep;
  const uintptr_t wanted = align_down(sp, kSmallPage);
  uintptr_t low = known_main_low();
  if (!is_mapped(wanted, low)) return;
  while (low > wanted && is_readable(low - kSmallPage)) low -= kSmallPage;
  main_low.store(low, std::memory_order_relaxed);
}

}  // namespace

uintptr_t main_stack_end() {
  return align_up(main_stack_start(), kSmallPage);
}

StackBounds own_stack() {
  const uintptr_t block = control_block();
#if defined(__x86_64__)
  if (const size_t offset = record_offset()) {
    const StackRecord& record = record_at(offset);
    if (record.is_of_main()) return {known_main_low(), main_stack_end()};
    if (record.encloses(block)) return {record.start + record.guard, block};
  }
#endif
  return {block, block};
}

StackBounds own_stack_down_to(uintptr_t sp) {
  const StackBounds known = own_stack();
  const bool grows = known.high == main_stack_end();
  if (!grows || sp >= known.low || known.high - sp > kMaxMainStack) return known;
  look_down_to(sp);
  return own_stack();
}

}  // namespace llamalloc
