// SPDX-License-Identifier: Apache-2.0
// Many short threads, each of which leaves blocks behind for a later one to free, and allocates
// once more in a pthread_key destructor. Memory per dead thread must not add up.
//
//   thread_churn THREADS SEED      prints `THREADS threads, rss KIB`
#include <pthread.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "block.h"

namespace {

constexpr int kAtOnce = 4;
constexpr int kBlocks = 64;
pthread_key_t key;

// Runs while the thread ends, perhaps after the allocator's own clean-up of this thread.
void allocate_late(void* value) {
  uint64_t state = reinterpret_cast<uintptr_t>(value);
  Block block = allocate(state);
  release(block);
  if (state % 2 == 0) pthread_setspecific(key, reinterpret_cast<void*>(state | 1));
}

void live_briefly(uint64_t seed, std::vector<Block>& blocks) {
  uint64_t state = seed;
  pthread_setspecific(key, reinterpret_cast<void*>(seed | 2));
  for (Block& block : blocks) {
    if (block.bytes != nullptr) release(block);
    block = allocate(state);
  }
}

long resident_kib() {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%*d %ld", &pages) != 1) fail("statm", file, 0);
  fclose(file);
  return pages * 4;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s THREADS SEED\n", argv[0]);
    return 2;
  }
  const int total = atoi(argv[1]);
  const uint64_t seed = strtoull(argv[2], nullptr, 10);
  pthread_key_create(&key, allocate_late);
  std::vector<std::vector<Block>> tables(kAtOnce, std::vector<Block>(kBlocks));
  for (int i = 0; i < total; i += kAtOnce) {
    std::vector<std::thread> threads;
    for (int j = 0; j < kAtOnce; ++j) {
      // The table that the thread before on another lane filled: frees cross threads.
      threads.emplace_back(live_briefly, seed + i + j,
                           std::ref(tables[(i / kAtOnce + j) % kAtOnce]));
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (std::vector<Block>& table : tables) {
    for (Block& block : table) release(block);
  }
  printf("%d threads, rss %ld\n", total, resident_kib());
  return 0;
}
