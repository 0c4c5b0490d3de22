// SPDX-License-Identifier: Apache-2.0
// Threads that allocate, resize, hand to each other and free, every byte verified: each owns a
// table of blocks, and one action in eight swaps a block with a random mailbox, from where another
// thread takes and frees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "block.h"

struct Mailbox {
  std::mutex guard;
  Block block;
};

inline Mailbox mailboxes[256];

inline void swap_with_mailbox(Block& block, uint64_t random) {
  Mailbox& mailbox = mailboxes[random % std::size(mailboxes)];
  const std::lock_guard<std::mutex> hold(mailbox.guard);
  std::swap(block, mailbox.block);
}

inline void act(Block& block, uint64_t& state) {
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

inline void release_all(std::vector<Block>& blocks) {
  for (Block& block : blocks)
    if (block.bytes != nullptr) release(block);
}

// Until ends() is true. Returns the number of actions.
template <typename Ends>
uint64_t hand_over(uint64_t seed, size_t table, Ends&& ends) {
  uint64_t state = seed;
  uint64_t count = 0;
  std::vector<Block> blocks(table);
  while (!ends())
    for (int i = 0; i < 500; ++i, ++count) act(blocks[next_random(state) % table], state);
  release_all(blocks);
  return count;
}

inline void empty_mailboxes() {
  for (Mailbox& mailbox : mailboxes)
    if (mailbox.block.bytes != nullptr) release(mailbox.block);
}
