// SPDX-License-Identifier: Apache-2.0
// Objects that outlive what the model says of them, on thousands of huge pages that nothing else is
// placed on, while threads allocate and free from the same call sites; every kept byte verified.
//
//   promotions SECONDS PAGES
//
// Of each page a few objects stay, so that it is at rest, and past its deadline after SECONDS: it
// joins the next group. Then threads free and replace what stayed. Only what stays is written, and
// the process has no huge pages: PAGES may be more than there is memory for.
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "block.h"

extern "C" [[gnu::weak]] int llamalloc_get(const char* name, void* out, size_t* bytes);

namespace {

constexpr size_t kSize = 8 << 10, kPageSize = 2 << 20, kPerPage = kPageSize / kSize;
constexpr int kThreads = 2, kSites = 16;
using Make = void* (*)(size_t);
Make makes[kSites];
std::atomic<bool> stop{false};

// A call site of its own for each.
template <int kSite>
[[gnu::noinline]] void* make(size_t size) {
  void* p = malloc(size);
  asm volatile("" : : "r"(p), "i"(kSite) : "memory");
  return p;
}

template <int kSite>
void list_sites() {
  makes[kSite] = make<kSite>;
  if constexpr (kSite > 0) list_sites<kSite - 1>();
}

Block make_block(uint64_t& state, size_t size) {
  Block block;
  block.size = size;
  block.bytes = static_cast<unsigned char*>(makes[next_random(state) % kSites](size));
  if (block.bytes == nullptr) fail("no memory", nullptr, size);
  fill(block, next_random(state));
  return block;
}

uint64_t statistic(const char* name) {
  uint64_t value = 0;
  size_t bytes = sizeof(value);
  return llamalloc_get != nullptr && llamalloc_get(name, &value, &bytes) == 0 ? value : 0;
}

// The model has seen every site before it counts.
void teach(uint64_t& state) {
  for (int i = 0; i < 400; ++i) {
    for (int k = 0; k < 200; ++k) free(makes[next_random(state) % kSites](kSize));
    usleep(2000);
  }
}

// Every thirtieth object stays, or every fourth: pages that are given back in part, and whole ones.
std::vector<Block> leave_few(size_t pages, uint64_t& state) {
  std::vector<void*> all(pages * kPerPage);
  for (void*& p : all) p = makes[next_random(state) % kSites](kSize);
  std::vector<Block> kept;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % ((i / kPerPage) % 16 == 0 ? 4 : 30) != 0) {
      free(all[i]);
      continue;
    }
    kept.push_back({static_cast<unsigned char*>(all[i]), kSize, 0, 0});
    fill(kept.back(), next_random(state));
  }
  return kept;
}

void churn(uint64_t seed) {
  uint64_t state = seed;
  std::vector<Block> blocks(500);
  while (!stop) {
    Block& block = blocks[next_random(state) % blocks.size()];
    if (block.bytes == nullptr) {
      block = make_block(state, 1 + next_random(state) % (2 * kSize));
    } else {
      release(block);
    }
    if (next_random(state) % 64 == 0) usleep(500);
  }
  for (Block& block : blocks)
    if (block.bytes != nullptr) release(block);
}

// By several threads, so that pages are filled up and emptied from all sides.
void replace(std::vector<Block>& kept, size_t first, uint64_t seed) {
  uint64_t state = seed;
  for (size_t i = first; i < kept.size(); i += kThreads) {
    release(kept[i]);
    if (next_random(state) % 2 == 0) kept[i] = make_block(state, kSize);
  }
}

void rest(double seconds, const std::vector<Block>& kept) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    for (const Block& block : kept) verify(block);
    usleep(200000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s SECONDS PAGES\n", argv[0]);
    return 2;
  }
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  list_sites<kSites - 1>();
  uint64_t state = 4711;
  teach(state);
  std::vector<Block> kept = leave_few(strtoull(argv[2], nullptr, 10), state);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(churn, 100 + i);
  rest(atof(argv[1]), kept);
  const uint64_t promoted = statistic("promotions"), broken = statistic("huge_pages_broken");
  std::vector<std::thread> replacing;
  for (int i = 0; i < kThreads; ++i) replacing.emplace_back(replace, std::ref(kept), i, 200 + i);
  for (std::thread& thread : replacing) thread.join();
  rest(2, kept);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (Block& block : kept)
    if (block.bytes != nullptr) release(block);
  printf("%llu promotions, %llu broken pages\n", static_cast<unsigned long long>(promoted),
         static_cast<unsigned long long>(broken));
  return 0;
}
