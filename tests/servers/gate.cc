// SPDX-License-Identifier: Apache-2.0
// A load under which the gate opens and closes, while threads allocate, resize, hand to each other
// and free; every byte verified.
//
//   gate SECONDS SEED THREADS [UNTIL]
//
// Wave after wave, most of the memory is objects that die within moments, among some that stay and
// pin the rest of their pages in the trough that follows. What predicts a short life for all of
// them is wrong of those that stay. Ends sooner when what the gate says holds the words UNTIL;
// prints what it said, each time that this changed its first words.
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "hand_over.h"

extern "C" [[gnu::weak]] int llamalloc_get(const char* name, void* out, size_t* bytes);

namespace {

constexpr size_t kBlocks = 300;  // of a thread
constexpr size_t kSize = 1024;
constexpr size_t kObjects = 160'000;
constexpr size_t kStays = 4;  // one in so many
constexpr double kHigh = 1.5, kTrough = 4.5;
using Clock = std::chrono::steady_clock;

std::atomic<bool> stop{false};

// Two call sites, which stay apart.
[[gnu::noinline]] void* make_temporary() {
  void* p = malloc(kSize);
  asm volatile("# temporary" : : "r"(p) : "memory");
  return p;
}
[[gnu::noinline]] void* make_lasting() {
  void* p = malloc(kSize);
  asm volatile("# lasting" : : "r"(p) : "memory");
  return p;
}

Block make(bool stays, uint64_t& state) {
  Block block;
  block.size = kSize;
  block.bytes = static_cast<unsigned char*>(stays ? make_lasting() : make_temporary());
  if (block.bytes == nullptr) fail("no memory", nullptr, kSize);
  fill(block, next_random(state));
  return block;
}

std::string says() {
  char text[512] = {};
  size_t bytes = sizeof(text);
  if (llamalloc_get != nullptr) llamalloc_get("segregation", text, &bytes);
  return text;
}

class Waves {
 public:
  Waves(double seconds, uint64_t seed, const char* until)
      : until_(until), state_(seed), end_(in(seconds)), objects_(kObjects) {}

  void run() {
    while (!is_over()) {
      for (size_t i = 0; i < kObjects; ++i)
        if (objects_[i].bytes == nullptr) objects_[i] = make(i % kStays == 0, state_);
      for (const auto end = in(kHigh); Clock::now() < end && !is_over();)
        for (int i = 0; i < 1000; ++i) replace(next_random(state_) % kObjects);
      for (size_t i = 0; i < kObjects; ++i)
        if (i % kStays != 0) release(objects_[i]);
      for (const auto end = in(kTrough); Clock::now() < end && !is_over();) usleep(20'000);
    }
    release_all(objects_);
  }

 private:
  static Clock::time_point in(double seconds) {
    return Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
  }
  void replace(size_t i) {
    if (i % kStays == 0) return verify(objects_[i]);
    release(objects_[i]);
    objects_[i] = make(false, state_);
  }
  bool is_over() {
    const std::string now = says();
    const std::string start = now.substr(0, now.find_first_of(":;("));
    if (start != said_) puts(now.c_str());
    said_ = start;
    const bool reached = *until_ != '\0' && now.find(until_) != std::string::npos;
    return reached || Clock::now() >= end_;
  }

  const char* until_;
  std::string said_;
  uint64_t state_;
  Clock::time_point end_;
  std::vector<Block> objects_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    fprintf(stderr, "usage: %s SECONDS SEED THREADS [UNTIL]\n", argv[0]);
    return 2;
  }
  const uint64_t seed = strtoull(argv[2], nullptr, 10) * 1000;
  std::vector<std::thread> threads;
  for (int i = 1; i <= atoi(argv[3]); ++i)
    threads.emplace_back([seed, i] { hand_over(seed + i, kBlocks, [] { return stop.load(); }); });
  Waves(atof(argv[1]), seed, argc == 5 ? argv[4] : "").run();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  empty_mailboxes();
  return 0;
}
