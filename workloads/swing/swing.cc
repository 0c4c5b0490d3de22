// SPDX-License-Identifier: Apache-2.0
// The microbenchmark of ASPLOS 2020, section 9.6: 64-byte objects, a heap that swings between
// 1 MB and 1 GB, and one object in 10,000 that stays, until 5 MB have stayed.
//
//   live   1 GB    /\    /\    /\          short-lived objects rise and fall together;
//                 /  \  /  \  /  \   ...   survivors are born all along the way and pin
//          1 MB _/    \/    \/    \_       whatever page they were put on
//
// At the end all but the survivors is freed. A huge page that still holds one is memory that the
// system cannot have back. Prints one line of JSON. With --wait it then stays, so that it can be
// measured from outside, until its standard input ends.
//
// All tables lie outside malloc and are unmapped before the end, so that what is left is the
// allocator's.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "../load_program.h"

const char* const kProgram = "swing";

namespace {

constexpr size_t kObject = 64;

enum class Order { fifo, lifo, random };

struct Settings {
  size_t low = size_t{1} << 20;   // bytes of short-lived objects at the bottom of a swing
  size_t peak = size_t{1} << 30;  // and at its top
  size_t survivors = 5 * (size_t{1} << 20);  // bytes that stay in all
  size_t every = 10'000;                     // one allocation in so many stays
  Order order = Order::fifo;                 // in which a fall frees
  bool wrapper = false;                      // allocate through one shared function
  bool wait = false;
};

[[gnu::noinline]] void* checked(void* object) {
  if (!object) out_of_memory();
  return object;
}

[[gnu::noinline]] void* shared_allocate() {
  void* object = checked(std::malloc(kObject));
  std::memset(object, 1, kObject);
  return object;
}

// The two calling contexts. They differ in nothing but their names and the lives of their objects.
[[gnu::noinline]] void* make_request_buffer(bool wrapper) {
  void* object = wrapper ? shared_allocate() : checked(std::malloc(kObject));
  std::memset(object, 2, kObject);
  return object;
}

[[gnu::noinline]] void* make_session_record(bool wrapper) {
  void* object = wrapper ? shared_allocate() : checked(std::malloc(kObject));
  std::memset(object, 3, kObject);
  return object;
}

// Short-lived objects: a ring of pointers.
class ShortLived {
 public:
  ShortLived(const Settings& settings, size_t capacity)
      : settings_(settings), capacity_(capacity), ring_(capacity) {}

  void add() { ring_[(first_ + count_++) % capacity_] = make_request_buffer(settings_.wrapper); }
  void drop() {
    --count_;
    if (settings_.order == Order::fifo) {
      std::free(ring_[first_]);
      first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
      return;
    }
    void*& last = ring_[(first_ + count_) % capacity_];
    if (settings_.order == Order::random) swap_with_random(last);
    std::free(last);
  }
  size_t count() const { return count_; }

 private:
  void swap_with_random(void*& last) {
    void*& other = ring_[(first_ + random_.below(count_ + 1)) % capacity_];
    void* const kept = other;
    other = last;
    last = kept;
  }

  const Settings& settings_;
  size_t capacity_, first_ = 0, count_ = 0;
  Random random_;
  Table<void*> ring_;
};

// Distinct aligned pages of 2^shift bytes among `n` objects; sorts the table.
size_t distinct_pages(Table<void*>& objects, size_t n, int shift) {
  const auto page = [&](size_t i) { return reinterpret_cast<uintptr_t>(objects[i]) >> shift; };
  std::sort(&objects[0], &objects[0] + n);
  size_t pages = n > 0;
  for (size_t i = 1; i < n; ++i) pages += page(i) != page(i - 1);
  return pages;
}

struct Outcome {
  size_t allocations = 0, survivors = 0, swings = 0;
  size_t live = 0;                         // the most payload, in bytes
  size_t huge_pages = 0, small_pages = 0;  // that hold survivors
};

Outcome swing(const Settings& settings) {
  Outcome out;
  const size_t low = settings.low / kObject, peak = settings.peak / kObject;
  const size_t wanted = settings.survivors / kObject;
  Table<void*> survivors(wanted);
  ShortLived objects(settings, peak);
  while (out.survivors < wanted) {
    while (objects.count() < peak && out.survivors < wanted) {
      objects.add();
      if (++out.allocations % settings.every == 0) {
        survivors[out.survivors++] = make_session_record(settings.wrapper);
      }
    }
    ++out.swings;
    out.live = std::max(out.live, (objects.count() + out.survivors) * kObject);
    while (objects.count() > low) objects.drop();
  }
  while (objects.count() > 0) objects.drop();
  out.huge_pages = distinct_pages(survivors, out.survivors, 21);
  out.small_pages = distinct_pages(survivors, out.survivors, 12);
  return out;
}

const char kHelp[] =
    "usage: swing [--peak MiB] [--low MiB] [--survivors KiB] [--every N]\n"
    "             [--order fifo|lifo|random] [--wrapper] [--wait]\n"
    "\n"
    "A heap of 64-byte objects swings between --low (1) and --peak (1024) MiB. One object in\n"
    "--every (10000) stays; it ends when --survivors (5120) KiB have stayed, and prints how many\n"
    "2 MiB and 4 KiB pages they lie on. --order: in which a fall frees (fifo). --wrapper: both\n"
    "kinds are allocated by one shared function, so that only its caller tells them apart.\n"
    "--wait: stay until standard input ends, to be measured.\n";

constexpr const char* kOrders[] = {"fifo", "lifo", "random"};

Settings parse(char** argv) {
  Settings s;
  for (Words words(argv, kHelp); words.next();) {
    if (words.is("--wait"))
      s.wait = true;
    else if (words.is("--wrapper"))
      s.wrapper = true;
    else if (words.is("--order"))
      s.order = choice<Order>("--order", words.value(), kOrders);
    else if (words.is("--peak"))
      s.peak = words.mebibytes();
    else if (words.is("--low"))
      s.low = words.mebibytes();
    else if (words.is("--survivors"))
      s.survivors = words.number() << 10;
    else if (words.is("--every"))
      s.every = words.number();
    else
      misused(words.word());
  }
  if (s.low >= s.peak) misused("--low at or above --peak");
  return s;
}

}  // namespace

int main(int, char** argv) {
  const Settings settings = parse(argv);
  const auto start = std::chrono::steady_clock::now();
  const Outcome out = swing(settings);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf(
      "{\"allocations\": %zu, \"survivors\": %zu, \"swings\": %zu, \"live\": %zu, "
      "\"seconds\": %.2f, \"survivor_huge_pages\": %zu, \"survivor_small_pages\": %zu}\n",
      out.allocations, out.survivors, out.swings, out.live, took.count(), out.huge_pages,
      out.small_pages);
  if (settings.wait) wait_to_be_measured();
}
