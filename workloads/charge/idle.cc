// SPDX-License-Identifier: Apache-2.0
// A burst by some threads is freed, and then the process makes no call at all: what goes back?
//
//   {"ready": true}  ->  (a byte on standard input)  ->  burst, all freed  ->  {"live": ...}  ->
//   idle
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
  size_t bytes = 160 << 20, threads = 4;
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

// Allocates, fills and frees; the objects hold the list themselves. Returns the payload.
size_t burst(Sizes sizes, size_t bytes) {
  Random random;
  Object* first = nullptr;
  size_t live = 0;
  while (live < bytes) {
    const size_t size = std::min(pick(sizes, random), std::max<size_t>(bytes - live, 16));
    auto* object = static_cast<Object*>(std::malloc(size));
    if (!object) out_of_memory();
    std::memset(object, 1, size);
    object->next = first;
    first = object;
    live += size;
  }
  while (first) {
    Object* const gone = first;
    first = gone->next;
    std::free(gone);
  }
  return live;
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
    turn_.arrive_and_wait();  // all is freed
  }

 private:
  void work() {
    std::free(std::malloc(100));
    turn_.arrive_and_wait();
    turn_.arrive_and_wait();
    burst(settings_.sizes, settings_.bytes / settings_.threads);
    turn_.arrive_and_wait();
    while (!settings_.end) pause();
  }

  const Settings& settings_;
  std::barrier<> turn_;
};

const char kHelp[] =
    "usage: idle [--sizes small|mixed|large] [--burst MiB] [--threads N] [--end]\n"
    "\n"
    "Says {\"ready\": true} and waits for a byte on standard input. --threads (4) then allocate\n"
    "--burst (160) MiB together, fill and free them; it says {\"live\": ...} and stays idle until\n"
    "standard input ends. --end: the threads end after the burst.\n";

Sizes sizes_of(const char* text) {
  const char* const names[] = {"small", "mixed", "large"};
  for (int i = 0; i < 3; ++i) {
    if (text && !std::strcmp(text, names[i])) return static_cast<Sizes>(i);
  }
  misused("--sizes");
}

Settings parse(char** argv) {
  Settings s;
  for (char** at = argv + 1; *at; ++at) {
    const char* const word = *at;
    const auto is = [&](const char* option) { return !std::strcmp(word, option); };
    if (is("--help")) {
      std::fputs(kHelp, stdout);
      std::exit(0);
    }
    if (is("--end"))
      s.end = true;
    else if (is("--sizes"))
      s.sizes = sizes_of(*++at);
    else if (is("--burst"))
      s.bytes = number(word, *++at) << 20;
    else if (is("--threads"))
      s.threads = number(word, *++at);
    else
      misused(word);
  }
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
