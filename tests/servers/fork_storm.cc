// SPDX-License-Identifier: Apache-2.0
// Forks again and again while other threads are inside malloc and free. A child that finds a lock
// taken by a thread that it does not have would hang: each child allocates, starts a thread of its
// own and ends within its alarm.
//
//   fork_storm FORKS SEED
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "block.h"

namespace {

constexpr int kThreads = 3;
constexpr unsigned kChildSeconds = 20;
std::atomic<bool> stop{false};

void churn(uint64_t seed, int rounds) {
  uint64_t state = seed;
  std::vector<Block> blocks(200);
  for (int i = 0; i < rounds && !stop; ++i) {
    Block& block = blocks[next_random(state) % blocks.size()];
    if (block.bytes == nullptr) {
      block = allocate(state);
    } else {
      release(block);
    }
  }
  for (Block& block : blocks) {
    if (block.bytes != nullptr) release(block);
  }
}

[[noreturn]] void be_child(uint64_t seed, Block& inherited) {
  alarm(kChildSeconds);
  churn(seed, 300);
  std::thread(churn, seed + 1, 300).join();
  release(inherited);
  exit(0);  // runs exit handlers: they too must find usable locks
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s FORKS SEED\n", argv[0]);
    return 2;
  }
  const uint64_t seed = strtoull(argv[2], nullptr, 10);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(churn, seed + i, 1 << 30);
  uint64_t state = seed + 99;
  int failed = 0;
  for (int i = 0; i < atoi(argv[1]); ++i) {
    Block block = allocate(state);
    const pid_t child = fork();
    if (child == 0) be_child(seed + 1000 + i, block);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      fprintf(stderr, "FAULT: child %d ended with wait status 0x%x\n", i, status);
      ++failed;
    }
    release(block);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  printf("%s forks, %d failed\n", argv[1], failed);
  return failed == 0 ? 0 : 1;
}
