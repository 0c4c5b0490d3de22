// SPDX-License-Identifier: Apache-2.0
// calloc after every kind of reuse: every byte must be zero, and what lies beside it unchanged.
//
//   zeroes SECONDS SEED
//
// Memory of every kind is written to and freed, then asked for again by calloc: slots, runs,
// objects that realloc grew, mappings of their own; at once (from what threads and the heap keep),
// after pages of which little is used were given back in part, and after all of it was. Prints
// objects and how many pages were seen broken.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "block.h"

extern "C" [[gnu::weak]] int llamalloc_get(const char* name, void* out, size_t* bytes);

namespace {

constexpr size_t kSizes[] = {16,     48,     112,    500,    1000,    3000,    20000,
                             100000, 250000, 300000, 600000, 1000000, 1200000, 3000000};
constexpr size_t kBytesOfEach = 6 << 20, kBurst = 40 << 20, kLive = 40 << 20;
constexpr unsigned char kDirt = 0xA5;
using Clock = std::chrono::steady_clock;
std::atomic<long> objects{0};
std::atomic<uint64_t> most_broken{0};

uint64_t statistic(const char* name) {
  uint64_t value = 0;
  size_t bytes = sizeof(value);
  return llamalloc_get != nullptr && llamalloc_get(name, &value, &bytes) == 0 ? value : 0;
}

struct Object {
  unsigned char* bytes;
  size_t size;
};

Object dirty(Object object) {
  if (object.bytes == nullptr) fail("no memory", nullptr, object.size);
  memset(object.bytes, kDirt, malloc_usable_size(object.bytes));
  return object;
}

Object zeroed(size_t size) {
  auto* p = static_cast<unsigned char*>(calloc(1, size));
  asm volatile("" : "+r"(p) : : "memory");  // the compiler takes calloc's word that it is zero
  const Object object{p, size};
  if (p == nullptr) fail("no memory", nullptr, size);
  if (p[0] != 0 || memcmp(p, p + 1, size - 1) != 0) fail("calloc left dirt", p, size);
  ++objects;
  return dirty(object);
}

void check_and_free(const Object& object) {
  const unsigned char* p = object.bytes;
  if (p[0] != kDirt || memcmp(p, p + 1, object.size - 1) != 0)
    fail("contents changed", p, object.size);
  free(object.bytes);
}

// Grown in steps, each of which a run or a mapping may serve in place.
Object grown(size_t size) {
  Object object = dirty({static_cast<unsigned char*>(malloc(12 << 10)), 12 << 10});
  while (object.size < size) {
    object.size += object.size / 2;
    object = dirty({static_cast<unsigned char*>(realloc(object.bytes, object.size)), object.size});
  }
  return object;
}

void free_shuffled(std::vector<Object>& all, uint64_t& state) {
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[next_random(state) % i]);
  for (const Object& object : all) check_and_free(object);
  all.clear();
}

void reuse_at_once(uint64_t& state) {
  std::vector<Object> all;
  for (const size_t size : kSizes) {
    const size_t count = std::min<size_t>(kBytesOfEach / size + 1, 20000);
    for (int turn = 0; turn < 3; ++turn) {
      for (size_t i = 0; i < count; ++i) all.push_back(zeroed(size));
      free_shuffled(all, state);
    }
    check_and_free(grown(size));
    check_and_free(zeroed(size));
  }
}

std::vector<Object> burst(size_t size, size_t bytes = kBurst) {
  std::vector<Object> all;
  for (size_t i = 0; i < bytes / size; ++i) all.push_back(zeroed(size));
  return all;
}

// One in so many stays, so that pages are broken; or none, so that they are given back whole.
void reuse_later(size_t size, size_t one_in, uint64_t& state) {
  std::vector<Object> kept, freed = burst(size);
  for (size_t i = 0; one_in != 0 && i < freed.size(); i += one_in) {
    kept.push_back(freed[i]);
    freed[i] = freed.back();
    freed.pop_back();
  }
  free_shuffled(freed, state);
  for (int i = 0; i < 20; ++i, usleep(100000))
    most_broken = std::max<uint64_t>(most_broken, statistic("huge_pages_broken"));
  for (const size_t again : {size_t{300000}, size}) {  // runs may be called zero without a look
    const std::vector<Object> half = burst(again, kBurst / 2);
    freed.insert(freed.end(), half.begin(), half.end());
  }
  for (const Object& object : kept) check_and_free(object);
  free_shuffled(freed, state);
}

void churn(uint64_t seed, Clock::time_point end) {
  for (uint64_t state = seed; Clock::now() < end;) {
    reuse_at_once(state);
    usleep(20000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s SECONDS SEED\n", argv[0]);
    return 2;
  }
  uint64_t state = strtoull(argv[2], nullptr, 10);
  const auto end = Clock::now() + std::chrono::milliseconds(static_cast<int>(1000 * atof(argv[1])));
  std::vector<Object> live = burst(2000, kLive);  // beside much in use, freed mappings are kept
  std::thread other(churn, state + 1, end);
  for (int i = 0; Clock::now() < end; ++i) {
    constexpr size_t kLater[] = {1000, 64, 20000, 100000};
    reuse_later(kLater[i % 4], i % 3 == 2 ? 0 : (1 << 20) / kLater[i % 4] + 1, state);
    reuse_at_once(state);
  }
  other.join();
  free_shuffled(live, state);
  printf("%ld objects, %llu broken\n", objects.load(),
         static_cast<unsigned long long>(most_broken.load()));
  return 0;
}
