// SPDX-License-Identifier: Apache-2.0
// The exported calls as malloc_fuzz.cc calls them: the symbols of contracts/api.def, each with
// `fuzzed_` before it (src/shim/CMakeLists.txt).
#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>

// A call under a name of ours, by its symbol in contracts/api.def.
#define FUZZED(result, name, symbol, ...) result name(__VA_ARGS__) asm("fuzzed_" symbol)

namespace llamalloc {

using Align = std::align_val_t;
using Nothrow = const std::nothrow_t&;
using Hint = uint8_t;
struct SizedPointer {
  void* p;
  size_t n;
};

extern "C" {
FUZZED(void*, do_malloc, "malloc", size_t);
FUZZED(void*, do_calloc, "calloc", size_t, size_t);
FUZZED(void*, do_realloc, "realloc", void*, size_t);
FUZZED(void*, do_reallocarray, "reallocarray", void*, size_t, size_t);
FUZZED(void*, do_aligned_alloc, "aligned_alloc", size_t, size_t);
FUZZED(void*, do_memalign, "memalign", size_t, size_t);
FUZZED(int, do_posix_memalign, "posix_memalign", void**, size_t, size_t);
FUZZED(void*, do_valloc, "valloc", size_t);
FUZZED(void*, do_pvalloc, "pvalloc", size_t);
FUZZED(void*, do_libc_malloc, "__libc_malloc", size_t);
FUZZED(void*, do_libc_memalign, "__libc_memalign", size_t, size_t);
FUZZED(void, do_free, "free", void*);
FUZZED(void, do_cfree, "cfree", void*);
FUZZED(void, do_libc_free, "__libc_free", void*);
FUZZED(void, do_free_sized, "free_sized", void*, size_t);
FUZZED(void, do_free_aligned_sized, "free_aligned_sized", void*, size_t, size_t);
FUZZED(void, do_sdallocx, "sdallocx", void*, size_t, int);
FUZZED(size_t, do_usable_size, "malloc_usable_size", void*);
FUZZED(size_t, do_malloc_size, "malloc_size", const void*);
FUZZED(size_t, do_nallocx, "nallocx", size_t, int);
FUZZED(int, do_trim, "malloc_trim", size_t);
FUZZED(int, do_mallopt, "mallopt", int, int);
FUZZED(struct mallinfo2, do_mallinfo2, "mallinfo2", );
FUZZED(int, do_malloc_info, "malloc_info", int, FILE*);
FUZZED(void*, new_plain, "_Znwm", size_t);
FUZZED(void*, new_nothrow, "_ZnwmRKSt9nothrow_t", size_t, Nothrow);
FUZZED(void*, new_aligned, "_ZnwmSt11align_val_t", size_t, Align);
FUZZED(void*, new_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", size_t, Align, Nothrow);
FUZZED(void*, array_plain, "_Znam", size_t);
FUZZED(void*, array_nothrow, "_ZnamRKSt9nothrow_t", size_t, Nothrow);
FUZZED(void*, array_aligned, "_ZnamSt11align_val_t", size_t, Align);
FUZZED(void*, array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", size_t, Align, Nothrow);
FUZZED(void*, new_hint, "_Znwm12__hot_cold_t", size_t, Hint);
FUZZED(void*, new_nothrow_hint, "_ZnwmRKSt9nothrow_t12__hot_cold_t", size_t, Nothrow, Hint);
FUZZED(void*, new_aligned_hint, "_ZnwmSt11align_val_t12__hot_cold_t", size_t, Align, Hint);
FUZZED(void*, array_hint, "_Znam12__hot_cold_t", size_t, Hint);
FUZZED(void*, array_aligned_nothrow_hint, "_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t",
       size_t, Align, Nothrow, Hint);
FUZZED(SizedPointer, new_sized, "__size_returning_new", size_t);
FUZZED(SizedPointer, new_sized_aligned, "__size_returning_new_aligned", size_t, Align);
FUZZED(SizedPointer, new_sized_hint, "__size_returning_new_hot_cold", size_t, Hint);
FUZZED(void, delete_plain, "_ZdlPv", void*);
FUZZED(void, delete_sized, "_ZdlPvm", void*, size_t);
FUZZED(void, delete_nothrow, "_ZdlPvRKSt9nothrow_t", void*, Nothrow);
FUZZED(void, delete_aligned, "_ZdlPvSt11align_val_t", void*, Align);
FUZZED(void, delete_sized_aligned, "_ZdlPvmSt11align_val_t", void*, size_t, Align);
FUZZED(void, array_delete, "_ZdaPv", void*);
FUZZED(void, array_delete_sized, "_ZdaPvm", void*, size_t);
FUZZED(void, array_delete_sized_aligned, "_ZdaPvmSt11align_val_t", void*, size_t, Align);
FUZZED(int, do_get, "llamalloc_get", const char*, void*, size_t*);
FUZZED(int, do_set, "llamalloc_set", const char*, const char*);
FUZZED(int, do_act, "llamalloc_act", const char*, const char*);
FUZZED(size_t, do_stats_json, "llamalloc_stats_json", char*, size_t);
FUZZED(const char*, do_tag, "llamalloc_tag", const char*);
}

#undef FUZZED

}  // namespace llamalloc
