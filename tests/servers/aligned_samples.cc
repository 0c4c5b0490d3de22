// SPDX-License-Identifier: Apache-2.0
// Objects of 70,000 bytes aligned to 64 KiB: 400 that die, 100 that stay, and pauses in which the
// worker evaluates their contexts.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kAlignment = 65536, kSize = 70'000;
void* kept[100];

[[gnu::noinline]] void* make_aligned() {
  void* p = nullptr;
  if (posix_memalign(&p, kAlignment, kSize) != 0) abort();
  return memset(p, 1, kSize);
}

[[gnu::noinline]] void make_and_free(int n) {
  for (int i = 0; i < n; ++i) {
    void* volatile p = make_aligned();
    free(p);
  }
}

[[gnu::noinline]] void make_and_keep() {
  for (void*& p : kept) p = make_aligned();
  asm volatile("" ::: "memory");
}

}  // namespace

int main() {
  for (int i = 0; i < 10; ++i) {
    make_and_free(40);
    usleep(50'000);
  }
  make_and_keep();
}
