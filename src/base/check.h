// SPDX-License-Identifier: Apache-2.0
// Assertions in three strengths, none of which allocates.
//
//   CHECK(cond)            always
//   DCHECK(cond)           debug builds (without NDEBUG)
//   SLOW_DCHECK(cond)      check builds (LLAMALLOC_CHECK_BUILD): may walk whole structures
//   CHECK_EQ/LE/LT(a, b)   print both values
//
// A failed check writes one line to stderr and aborts.
#pragma once

#include <cstdint>

namespace llamalloc {

[[noreturn, gnu::cold]] void check_failed(const char* file, int line, const char* text);
[[noreturn, gnu::cold]] void check_failed(const char* file, int line, const char* text,
                                          uint64_t left, uint64_t right);

// Writes a line "llamalloc: TEXT" to stderr in one call; cuts it at 500 bytes.
void print_line(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace llamalloc

#define CHECK(cond)                                                                         \
  do {                                                                                      \
    if (__builtin_expect(!(cond), 0)) ::llamalloc::check_failed(__FILE__, __LINE__, #cond); \
  } while (0)
#define LLAMALLOC_CHECK_OP(a, op, b)                                                       \
  do {                                                                                     \
    const auto check_a_ = (a);                                                             \
    const auto check_b_ = (b);                                                             \
    if (__builtin_expect(!(check_a_ op check_b_), 0))                                      \
      ::llamalloc::check_failed(__FILE__, __LINE__, #a " " #op " " #b, (uint64_t)check_a_, \
                                (uint64_t)check_b_);                                       \
  } while (0)
#define CHECK_EQ(a, b) LLAMALLOC_CHECK_OP(a, ==, b)
#define CHECK_LE(a, b) LLAMALLOC_CHECK_OP(a, <=, b)
#define CHECK_LT(a, b) LLAMALLOC_CHECK_OP(a, <, b)

#ifdef NDEBUG
#define DCHECK(cond) static_cast<void>(sizeof(!(cond)))
#else
#define DCHECK(cond) CHECK(cond)
#endif
#ifdef LLAMALLOC_CHECK_BUILD
#define SLOW_DCHECK(cond) CHECK(cond)
#else
#define SLOW_DCHECK(cond) static_cast<void>(sizeof(!(cond)))
#endif
