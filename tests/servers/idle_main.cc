// SPDX-License-Identifier: Apache-2.0
// A main thread that allocated before the library's constructor ran, as that of every C++ program
// does (libstdc++ gets room for exceptions when it is initialised), frees much and goes idle.
// Prints how many caches of idle threads were emptied meanwhile; at most ten seconds.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

extern "C" [[gnu::weak]] int llamalloc_get(const char*, void*, size_t*);

namespace {

uint64_t emptied() {
  uint64_t value = 0;
  size_t bytes = sizeof(value);
  return llamalloc_get("sleepers_emptied", &value, &bytes) == 0 ? value : 0;
}

}  // namespace

int main() {
  {
    std::vector<std::vector<char>> heap(200'000);
    for (auto& one : heap) one.resize(64);
    for (size_t i = 0; i < heap.size(); ++i)
      if (i % 64 != 0) std::vector<char>().swap(heap[i]);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (emptied() == 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::printf("%llu\n", static_cast<unsigned long long>(emptied()));
}
