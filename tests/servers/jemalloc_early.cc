// SPDX-License-Identifier: Apache-2.0
// A library of jemalloc_beside.cc, whose constructor comes before ours.
#include <malloc.h>

#include <cstdlib>

extern "C" {
void* mallocx(size_t, int);
void sdallocx(void*, size_t, int);
size_t nallocx(size_t, int);
size_t sallocx(const void*, int);
int freed_by_constructor = 0;
}

[[gnu::constructor]] static void begin() {
  sdallocx(mallocx(24, 0), 24, 0);
  void* const p = mallocx(100, 0);
  if (malloc_usable_size(p) != sallocx(p, 0) || nallocx(100, 0) > sallocx(p, 0)) abort();
  free(p);
  freed_by_constructor = 1;
}
