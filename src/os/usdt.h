// SPDX-License-Identifier: Apache-2.0
// Probes that a tracer attaches to while the program runs (USDT: user statically defined tracing).
//
//   code        nop                  a tracer puts its breakpoint here
//   .probes     semaphore            it counts the tracers; 0: the program need not come by
//   .note.stapsdt                    where both are, the probe's name, where its arguments lie
//
// The note is that of SystemTap, version 3
// (sourceware.org/systemtap/wiki/UserSpaceProbeImplementation), which bpftrace, gdb, perf and the
// OpenTelemetry profiler read. It is not loaded into memory. Arguments lie where the platform
// passes those of a call: the OpenTelemetry profiler looks there.
#pragma once

#include <cstdint>

// The section is writable, and the linker keeps it: only the note refers to it.
#define LLAMALLOC_USDT_SEMAPHORE(name)                                                          \
  extern "C" {                                                                                  \
  [[gnu::section(".probes"), gnu::used, gnu::visibility("hidden")]] volatile uint16_t name = 0; \
  }

// clang-format off
#define LLAMALLOC_USDT_NOTE(provider, name, semaphore, arguments) \
  "990: nop\n"                                                    \
  ".pushsection .note.stapsdt,\"?\",%%note\n"                     \
  ".balign 4\n"                                                   \
  ".4byte 992f-991f, 994f-993f, 3\n"                              \
  "991: .asciz \"stapsdt\"\n"                                     \
  "992: .balign 4\n"                                              \
  "993: .8byte 990b\n"                                            \
  ".8byte _.stapsdt.base\n"                                       \
  ".8byte " semaphore "\n"                                        \
  ".asciz \"" provider "\"\n"                                     \
  ".asciz \"" name "\"\n"                                         \
  ".asciz \"" arguments "\"\n"                                    \
  "994: .balign 4\n"                                              \
  ".popsection\n"                                                 \
  ".ifndef _.stapsdt.base\n"                                      \
  ".pushsection .stapsdt.base,\"aG\",%%progbits,.stapsdt.base,comdat\n" \
  ".weak _.stapsdt.base\n"                                        \
  ".hidden _.stapsdt.base\n"                                      \
  "_.stapsdt.base: .space 1\n"                                    \
  ".size _.stapsdt.base, 1\n"                                     \
  ".popsection\n"                                                 \
  ".endif\n"
// clang-format on

#if defined(__x86_64__)
#define LLAMALLOC_USDT_1 "8@%%rdi"
#define LLAMALLOC_USDT_3 "8@%%rdi 8@%%rsi 8@%%rdx"
#define LLAMALLOC_USDT_REGISTERS(a, b, c)        \
  register uint64_t usdt_a __asm__("rdi") = (a); \
  register uint64_t usdt_b __asm__("rsi") = (b); \
  register uint64_t usdt_c __asm__("rdx") = (c)
#elif defined(__aarch64__)
#define LLAMALLOC_USDT_1 "8@x0"
#define LLAMALLOC_USDT_3 "8@x0 8@x1 8@x2"
#define LLAMALLOC_USDT_REGISTERS(a, b, c)       \
  register uint64_t usdt_a __asm__("x0") = (a); \
  register uint64_t usdt_b __asm__("x1") = (b); \
  register uint64_t usdt_c __asm__("x2") = (c)
#else
#error "usdt.h: which registers pass the first three arguments of a call here?"
#endif

// The semaphore is a name, and must be known to the linker under it.
#define LLAMALLOC_USDT(provider, name, semaphore, arguments, a, b, c)                        \
  do {                                                                                       \
    LLAMALLOC_USDT_REGISTERS(a, b, c);                                                       \
    __asm__ volatile(LLAMALLOC_USDT_NOTE(provider, name, semaphore, arguments)::"r"(usdt_a), \
                     "r"(usdt_b), "r"(usdt_c)                                                \
                     : "memory");                                                            \
  } while (false)
