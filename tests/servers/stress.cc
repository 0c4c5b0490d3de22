// SPDX-License-Identifier: Apache-2.0
// Threads that allocate, resize, hand to each other and free, every byte verified.
//
//   stress SECONDS SEED THREADS
//
// Prints the number of actions; aborts on the first fault.
#include <pthread.h>

#include <chrono>
#include <thread>

#include "hand_over.h"

namespace {

constexpr size_t kBlocks = 3000;  // per thread
using Clock = std::chrono::steady_clock;

std::atomic<uint64_t> actions{0};

void work(uint64_t seed, Clock::time_point end) {
  actions += hand_over(seed, kBlocks, [end] { return Clock::now() >= end; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s SECONDS SEED THREADS\n", argv[0]);
    return 2;
  }
  const auto end =
      Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(1000 * atof(argv[1])));
  std::vector<std::thread> threads;
  for (int i = 0; i < atoi(argv[3]); ++i) {
    threads.emplace_back(work, strtoull(argv[2], nullptr, 10) * 1000 + i, end);
  }
  for (std::thread& thread : threads) thread.join();
  empty_mailboxes();
  printf("%llu actions\n", static_cast<unsigned long long>(actions.load()));
  return 0;
}
