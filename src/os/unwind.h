// SPDX-License-Identifier: Apache-2.0
// Stack unwinding without frame pointers, from cached rows of .eh_frame. A row says how to find the
// caller's frame from a given pc.
//
//   pc --[cache of rows]--> how to find the caller's frame --> its pc, and so on outward
//        \-- not there: _dl_find_object, .eh_frame_hdr, the function's call frame program
//
// No allocation, no lock, errno untouched, async-signal-safe: callable inside malloc. Every read of
// the stack is checked against a window, so a corrupt stack only shortens the trace.
// About 5 ns a frame when its row is cached, about 100 ns when it is not.
//
// Invariant: a trace equals what _Unwind_Backtrace says, or is a prefix of it and `truncated`.
// On processors other than x86-64 a trace has only its first frame and is truncated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/code_key.h"
#include "base/stack_trace.h"
#include "os/own_stack.h"

namespace llamalloc {

// Where a walk starts: the registers of a function that is in the middle of a call (or at pc).
struct Registers {
  uintptr_t pc = 0;  // a return address: the instruction before it is the one that runs
  uintptr_t sp = 0;  // after that return
  uintptr_t rbp = 0;
  uintptr_t rbx = 0;  // 0: not known (a few hand-written frames need it)
};

// Stack memory: the byte of address a, low <= a < high, is image[a - low]. image is the stack
// itself, or a copy.
struct StackWindow {
  uintptr_t low = 0;
  uintptr_t high = 0;
  const char* image = nullptr;
};

// The upper part of a stack, copied to be walked later, on any thread.
struct StackSnapshot {
  Registers registers;
  StackWindow window;
};

// frames[0] = start.pc, then outward.
void unwind(const Registers& start, const StackWindow& window, StackTrace* out);

// The calling thread's stack from sp to its end (os/own_stack.h). Where sp lies elsewhere (signal
// stack, fiber, a stack given to clone), only the rest of sp's page: enough for a few frames, never
// a fault.
StackWindow current_stack_window(uintptr_t sp);

// The context whose innermost frame is `return_address`, a function that called (by however many
// frames) this one. If it is not found on the stack: {return_address}, truncated.
[[gnu::noinline]] void unwind_from_here(uintptr_t return_address, StackTrace* out);

// Whether the calling thread runs a signal handler, as far as its stack shows: false, too, beyond
// code without unwind tables, and in a handler that interrupted a fiber.
bool is_in_signal_handler();

// Like unwind_from_here, but only copies up to `room` bytes of the stack into buffer (which must
// outlive the snapshot). More expensive than unwind_from_here unless the rows are not cached.
// False: the frame was not found; the snapshot then gives {return_address}, truncated.
// unwind_snapshot is not for use inside malloc: it takes the loader's lock, so that the modules it
// meets cannot be unmapped meanwhile. One that is gone already truncates the trace.
[[gnu::noinline]] bool take_snapshot(uintptr_t return_address, char* buffer, size_t room,
                                     StackSnapshot* out);
void unwind_snapshot(const StackSnapshot& snapshot, StackTrace* out);

// Clears the row cache. Only needed after dlclose of a module without build-id: other rows belong
// to a module's identity, not to its address.
void unwind_cache_clear();

// The start of the function around pc by its unwind table, or 0 where no row covers pc.
uintptr_t unwind_function_start(uintptr_t pc);

// return_address lies in a function F. The result: bytes from the stack pointer there to just above
// F's own return address, if F's row is relative to the stack pointer; else 0. Not inside malloc:
// it takes the loader's lock, like unwind_snapshot.
uint32_t unwind_frame_bytes(uintptr_t return_address);

// StackTrace::codes of a return address whose module stays, as it does on the caller's own stack.
uint64_t code_of(uintptr_t return_address);
// That of a return address, if it stays. False: none covers it that has an unwind table.
bool find_code_module(uintptr_t return_address, CodeModule* out);
// hash_build_id (base/code_key.h) of the module that covers an address and stays; 0: none does.
uint64_t build_of_code(uintptr_t address);

#if defined(__x86_64__)
// The registers of the function this is written in.
[[gnu::always_inline]] inline Registers capture_registers() {
  Registers r;
  asm volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n\tmov %%rbx, %3"
               : "=&r"(r.pc), "=&r"(r.sp), "=&r"(r.rbp), "=&r"(r.rbx));
  return r;
}
#else
[[gnu::always_inline]] inline Registers capture_registers() {
  Registers r;
  r.pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  r.sp = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return r;
}
#endif

// The registers of a caller after the return: caller_sp and rbp are the values at that moment.
inline Registers registers_at(uintptr_t return_address, uintptr_t caller_sp, uintptr_t rbp) {
  return {return_address, caller_sp, rbp, 0};
}

}  // namespace llamalloc
