// SPDX-License-Identifier: Apache-2.0
// An allocated block that knows its own contents: every byte that malloc_usable_size grants is
// written, and verified before the block goes. Overlaps and lost bytes show as a mismatch.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct Block {
  unsigned char* bytes = nullptr;
  size_t size = 0;    // as requested
  size_t usable = 0;  // written and verified
  uint64_t key = 0;   // what the contents derive from
};

[[noreturn]] inline void fail(const char* what, const void* address, size_t size) {
  fprintf(stderr, "FAULT: %s at %p, size %zu\n", what, address, size);
  abort();
}

// splitmix64: one step of the generator that all of these programs use.
inline uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

inline uint64_t word_at(const Block& block, size_t index) {
  return (block.key + index) * 0x9e3779b97f4a7c15u;
}

inline void fill(Block& block, uint64_t key) {
  block.key = key;
  block.usable = malloc_usable_size(block.bytes);
  if (block.usable < block.size)
    fail("usable size below the requested one", block.bytes, block.size);
  for (size_t i = 0; i < block.usable / 8; ++i) {
    const uint64_t word = word_at(block, i);
    memcpy(block.bytes + 8 * i, &word, 8);
  }
  for (size_t i = block.usable / 8 * 8; i < block.usable; ++i) {
    block.bytes[i] = static_cast<unsigned char>(key);
  }
}

// The first `length` bytes, at most usable.
inline void verify(const Block& block, size_t length) {
  for (size_t i = 0; i < length / 8; ++i) {
    const uint64_t word = word_at(block, i);
    if (memcmp(block.bytes + 8 * i, &word, 8) != 0)
      fail("contents changed", block.bytes, block.size);
  }
}

inline void verify(const Block& block) {
  verify(block, block.usable);
  for (size_t i = block.usable / 8 * 8; i < block.usable; ++i) {
    if (block.bytes[i] != static_cast<unsigned char>(block.key)) {
      fail("last bytes changed", block.bytes, block.size);
    }
  }
}

// Mostly small, some of kilobytes, few of megabytes: all paths of an allocator.
inline size_t random_size(uint64_t& state) {
  const uint64_t r = next_random(state);
  const uint64_t kind = r % 1000;
  const uint64_t value = r >> 20;
  if (kind < 800) return value % 512;
  if (kind < 970) return value % 8192;
  if (kind < 998) return value % 131072;
  return value % (5u << 20);
}

// A block by one of the allocation functions, checked for alignment and, from calloc, for zeros.
inline Block allocate(uint64_t& state) {
  Block block;
  block.size = random_size(state);
  const uint64_t r = next_random(state);
  size_t alignment = block.size < 16 ? 8 : 16;
  void* p = nullptr;
  switch (r % 8) {
    case 0:
      p = calloc(1, block.size);
      break;
    case 1:
      alignment = size_t{16} << (r >> 8) % 12;
      p = aligned_alloc(alignment, block.size);
      break;
    case 2:
      alignment = size_t{8} << (r >> 8) % 13;
      if (posix_memalign(&p, alignment, block.size) != 0) p = nullptr;
      break;
    default:
      p = malloc(block.size);
  }
  asm volatile("" : "+r"(p) : : "memory");  // the compiler takes calloc's word that it is zero
  if (p == nullptr) fail("no memory", nullptr, block.size);
  if (reinterpret_cast<uintptr_t>(p) % alignment != 0) fail("misaligned", p, alignment);
  block.bytes = static_cast<unsigned char*>(p);
  for (size_t i = 0; r % 8 == 0 && i < block.size; ++i) {
    if (block.bytes[i] != 0) fail("calloc left a byte that is not zero", p, block.size);
  }
  fill(block, next_random(state));
  return block;
}

inline void resize(Block& block, uint64_t& state) {
  verify(block);
  const size_t old_usable = block.usable;
  block.size = random_size(state) + 1;
  void* p = realloc(block.bytes, block.size);
  if (p == nullptr) fail("realloc: no memory", block.bytes, block.size);
  block.bytes = static_cast<unsigned char*>(p);
  verify(block, old_usable < block.size ? old_usable : block.size);
  fill(block, next_random(state));
}

inline void release(Block& block) {
  verify(block);
  free(block.bytes);
  block = Block{};
}
