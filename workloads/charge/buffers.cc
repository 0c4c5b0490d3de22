// SPDX-License-Identifier: Apache-2.0
// Large zeroed buffers, replaced at random: images, frames, columns of a table.
//
// --count buffers of --least to --most MiB (--kib: KiB) live at once. Each step frees one at
// random, allocates one of another size and zeroes it. With --requests a step is a request: it
// frees all buffers, and allocates as many of the same sizes; with --pause nothing is in use
// for so many milliseconds in between, which do not count as time. An allocator that unmaps a freed
// buffer pays for it with page faults; one that keeps it pays with memory. Prints one line of JSON;
// `live` is the most payload.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "../load_program.h"

const char* const kProgram = "buffers";

namespace {

struct Settings {
  size_t count = 20, least = 5, most = 25;
  size_t unit = 1 << 20;  // of these two, in bytes
  size_t steps = 400;
  size_t pause = 0;  // milliseconds
  bool requests = false, wait = false;
};

struct Buffer {
  void* memory = nullptr;
  size_t size = 0;
};

class Buffers {
 public:
  explicit Buffers(const Settings& settings) : settings_(settings), table_(settings.count) {}

  // Returns the live bytes.
  size_t replace(size_t i) {
    empty(table_[i]);
    return fill(table_[i], settings_.least * settings_.unit + random_.below(range()));
  }
  // Returns the live bytes.
  size_t replace_all() {
    for (size_t i = 0; i < settings_.count; ++i) empty(table_[i]);
    std::this_thread::sleep_for(std::chrono::milliseconds(settings_.pause));
    for (size_t i = 0; i < settings_.count; ++i) fill(table_[i], table_[i].size);
    return live_;
  }
  size_t any() { return random_.below(settings_.count); }

 private:
  size_t range() const { return (settings_.most - settings_.least) * settings_.unit + 1; }
  // Its size stays known.
  void empty(Buffer& buffer) {
    std::free(buffer.memory);
    live_ -= buffer.size;
  }
  size_t fill(Buffer& buffer, size_t size) {
    buffer = {.memory = std::malloc(size), .size = size};
    if (!buffer.memory) out_of_memory();
    std::memset(buffer.memory, 0, size);
    return live_ += size;
  }

  const Settings& settings_;
  Table<Buffer> table_;  // zeroed: no buffer
  Random random_;
  size_t live_ = 0;
};

size_t run(const Settings& settings) {
  Buffers buffers(settings);
  size_t live = 0;
  for (size_t i = 0; i < settings.count; ++i) live = std::max(live, buffers.replace(i));
  for (size_t i = 0; i < settings.steps; ++i) {
    const size_t now = settings.requests ? buffers.replace_all() : buffers.replace(buffers.any());
    live = std::max(live, now);
  }
  return live;
}

const char kHelp[] =
    "usage: buffers [--count N] [--least MiB] [--most MiB] [--kib] [--steps N] [--requests]\n"
    "               [--pause MS] [--wait]\n"
    "\n"
    "--count (20) zeroed buffers of --least (5) to --most (25) MiB; one at random is replaced,\n"
    "--steps (400) times. --kib: the sizes are in KiB. --requests: each time all are freed, and\n"
    "as many of the same sizes allocated; --pause (0): so long after that, which does not count\n"
    "as time. --wait: stay until standard input ends, to be measured.\n";

Settings parse(char** argv) {
  Settings s;
  for (Words words(argv, kHelp); words.next();) {
    if (words.is("--wait"))
      s.wait = true;
    else if (words.is("--kib"))
      s.unit = 1 << 10;
    else if (words.is("--requests"))
      s.requests = true;
    else if (words.is("--count"))
      s.count = words.number();
    else if (words.is("--least"))
      s.least = words.number();
    else if (words.is("--most"))
      s.most = words.number();
    else if (words.is("--pause"))
      s.pause = words.number();
    else if (words.is("--steps"))
      s.steps = words.number();
    else
      misused(words.word());
  }
  if (s.least > s.most) misused("--least above --most");
  return s;
}

}  // namespace

int main(int, char** argv) {
  const Settings settings = parse(argv);
  const auto start = std::chrono::steady_clock::now();
  const size_t live = run(settings);
  const size_t pauses = settings.requests ? settings.steps : 0;
  const std::chrono::milliseconds paused(pauses * settings.pause);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start - paused;
  std::printf("{\"live\": %zu, \"seconds\": %.3f}\n", live, took.count());
  if (settings.wait) wait_to_be_measured();
}
