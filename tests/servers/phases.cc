// SPDX-License-Identifier: Apache-2.0
// Holds 32 MiB in `crest`, frees it, holds 4 MiB in `valley`, says so, and waits for a line.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace {

constexpr size_t kBlock = 4096;

void* block() {
  void* p = malloc(kBlock);
  memset(p, 1, kBlock);
  return p;
}

[[gnu::noinline]] void crest(std::vector<void*>& held) {
  for (int i = 0; i < 8192; ++i) held.push_back(block());
}

[[gnu::noinline]] void valley(std::vector<void*>& held) {
  for (int i = 0; i < 1024; ++i) held.push_back(block());
}

void rest() {
  const timespec time{0, 300'000'000};
  nanosleep(&time, nullptr);
}

}  // namespace

int main() {
  std::vector<void*> high, low;
  crest(high);
  rest();
  for (void* p : high) free(p);
  high.clear();
  valley(low);
  rest();
  puts("ready");
  fflush(stdout);
  getchar();
  for (void* p : low) free(p);
  return 0;
}
