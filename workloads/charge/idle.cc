// SPDX-License-Identifier: Apache-2.0
// A burst by some threads is freed, or all of it but some objects in a row here and there, and then
// the process makes no call at all: what goes back?
//
//   {"ready": true}  ->  (a byte on standard input)  ->  burst, freed  ->  {"live": ...}  ->  idle
//
// The memory is read from outside: before the burst, and while the process is idle. The threads
// have allocated before the first reading, so that their stacks and caches are in both. They block
// after the burst, or end with --end.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

#include "../load_program.h"

const char* const kProgram = "idle";

namespace {

enum class Sizes { small, mixed, large };

struct Settings {
  Sizes sizes = Sizes::mixed;
  size_t bytes = 160 << 20, threads = 4, stays = 0;
  bool end = false;
};

size_t pick(Sizes sizes, Random& random) {
  if (sizes == Sizes::small) return 16 + random.below(240);
  if (sizes == Sizes::large) return (400 << 10) + random.below(4 << 20);
  return random.below(500) ? 16 + random.below(4000) : (200 << 10) + random.below(2 << 20);
}

struct Object {
  Object* next;
};

// Objects of `bytes` in all, filled; they hold the list themselves.
Object* burst_of(Sizes sizes, size_t bytes) {
  Random random;
  Object* first = nullptr;
  for (size_t live = 0, size; live < bytes; live += size) {
    size = std::min(pick(sizes, random), std::max<size_t>(bytes - live, 16));
    auto* const object = filled<Object>(size);
    object->next = first;
    first = object;
  }
  return first;
}

// Of each hundred objects so many stay, up to kInARow one after another.
void free_but(size_t stays, Object* first) {
  constexpr size_t kInARow = 100;
  Random random;
  for (size_t left = 0; first; left = left != 0 ? left - 1 : 0) {
    if (left == 0 && stays != 0) {
      const size_t keep = 1 + random.below(kInARow);
      left = keep * (100 - stays) / stays;
      for (size_t i = 0; i < keep && first; ++i) first = first->next;
      if (!first) return;
    }
    Object* const gone = first;
    first = gone->next;
    std::free(gone);
  }
}

class Burst {
 public:
  explicit Burst(const Settings& settings)
      : settings_(settings), turn_(static_cast<std::ptrdiff_t>(settings.threads) + 1) {}

  void run() {
    for (size_t i = 0; i < settings_.threads; ++i) std::thread([this] { work(); }).detach();
    turn_.arrive_and_wait();  // all have allocated
    std::printf("{\"ready\": true}\n");
    std::fflush(stdout);
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1) std::exit(0);
    turn_.arrive_and_wait();  // the burst begins
    turn_.arrive_and_wait();  // all is live
    turn_.arrive_and_wait();  // all is freed
  }

 private:
  void work() {
    std::free(std::malloc(100));
    turn_.arrive_and_wait();
    turn_.arrive_and_wait();
    Object* const first = burst_of(settings_.sizes, settings_.bytes / settings_.threads);
    turn_.arrive_and_wait();
    free_but(settings_.stays, first);
    turn_.arrive_and_wait();
    while (!settings_.end) pause();
  }

  const Settings& settings_;
  std::barrier<> turn_;
};

const char kHelp[] =
    "usage: idle [--sizes small|mixed|large] [--burst MiB] [--threads N] [--stays N]\n"
    "            [--end]\n"
    "\n"
    "Says {\"ready\": true} and waits for a byte on standard input. --threads (4) then allocate\n"
    "--burst (160) MiB together, fill and free them, but for --stays (0) in each hundred. It says\n"
    "{\"live\": ...} and stays idle until standard input ends. --end: the threads end after the "
    "burst.\n";

constexpr const char* kSizes[] = {"small", "mixed", "large"};

Settings parse(char** argv) {
  Settings s;
  for (Words words(argv, kHelp); words.next();) {
    if (words.is("--end"))
      s.end = true;
    else if (words.is("--sizes"))
      s.sizes = choice<Sizes>("--sizes", words.value(), kSizes);
    else if (words.is("--burst"))
      s.bytes = words.mebibytes();
    else if (words.is("--stays"))
      s.stays = words.number();
    else if (words.is("--threads"))
      s.threads = words.number();
    else
      misused(words.word());
  }
  if (s.stays >= 100) misused("--stays above 99");
  return s;
}

}  // namespace

int main(int, char** argv) {
  const Settings settings = parse(argv);
  static Burst load(settings);
  const auto start = std::chrono::steady_clock::now();
  load.run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("{\"live\": %zu, \"seconds\": %.3f}\n", settings.bytes, took.count());
  wait_to_be_measured();
}
