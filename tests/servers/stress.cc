// SPDX-License-Identifier: Apache-2.0
// Threads that allocate, resize, hand to each other and free, every byte verified.
//
//   stress SECONDS SEED THREADS
//
// Each thread owns a table of blocks; one action in eight swaps a block with a random mailbox, from
// where another thread takes and frees it. Prints the number of actions; aborts on the first fault.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "block.h"

namespace {

constexpr size_t kBlocks = 3000;  // per thread
constexpr size_t kMailboxes = 256;

struct Mailbox {
  std::mutex guard;
  Block block;
};

Mailbox mailboxes[kMailboxes];
std::atomic<uint64_t> actions{0};

void swap_with_mailbox(Block& block, uint64_t random) {
  Mailbox& mailbox = mailboxes[random % kMailboxes];
  const std::lock_guard<std::mutex> hold(mailbox.guard);
  std::swap(block, mailbox.block);
}

void act(Block& block, uint64_t& state) {
  const uint64_t r = next_random(state);
  if (block.bytes == nullptr) {
    block = allocate(state);
  } else if (r % 8 == 0) {
    swap_with_mailbox(block, r >> 8);
  } else if (r % 8 == 1) {
    resize(block, state);
  } else {
    release(block);
  }
}

void work(uint64_t seed, std::chrono::steady_clock::time_point end) {
  uint64_t state = seed;
  uint64_t count = 0;
  std::vector<Block> blocks(kBlocks);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 500; ++i, ++count) act(blocks[next_random(state) % kBlocks], state);
  }
  for (Block& block : blocks) {
    if (block.bytes != nullptr) release(block);
  }
  actions += count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s SECONDS SEED THREADS\n", argv[0]);
    return 2;
  }
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(static_cast<int64_t>(1000 * atof(argv[1])));
  std::vector<std::thread> threads;
  for (int i = 0; i < atoi(argv[3]); ++i) {
    threads.emplace_back(work, strtoull(argv[2], nullptr, 10) * 1000 + i, end);
  }
  for (std::thread& thread : threads) thread.join();
  for (Mailbox& mailbox : mailboxes) {
    if (mailbox.block.bytes != nullptr) release(mailbox.block);
  }
  printf("%llu actions\n", static_cast<unsigned long long>(actions.load()));
  return 0;
}
