// SPDX-License-Identifier: Apache-2.0
// llamalloc-replay: does what a trace says with the malloc that it runs on, in one thread and at
// the trace's pace, and prints what the process has resident. Preload the allocator to look at.
//
// Another process loads the events, so that the allocator sees the trace's calls and nothing else;
// what was resident before the first of them is subtracted.
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/system_facts.h"
#include "sim/survey.h"
#include "tools/trace_argument.h"

namespace {

using namespace llamalloc;
using trace::Event;
using trace::EventKind;

constexpr char kHelp[] =
    R"(usage: llamalloc-replay TRACE [--samples N] [--speed X]

Repeats the allocations, resizes and frees of a trace at their original times, with the malloc of
this process. Prints live and resident bytes over time as JSON. Writes to every page of each object.

  --samples N   number of evenly spaced samples (100)
  --speed X     multiple of the original speed (1); 0: as fast as possible, which is too fast
                for the background thread to keep up

example: LD_PRELOAD=build/release/libllamalloc.so llamalloc-replay t.trace
)";

struct Step {
  uint64_t time;
  uint64_t size;
  uint32_t slot;
  EventKind kind;
  uint8_t alignment_log2;
};

struct Sample {
  uint64_t time;
  uint64_t live;
  uint64_t resident;
  uint64_t huge;
};

struct Replay {
  const Step* steps = nullptr;
  size_t count = 0;
  void** objects = nullptr;
  uint64_t* sizes = nullptr;
  uint64_t duration = 0;
  Sample* samples = nullptr;
  size_t sample_count = 100;
  double speed = 1;
};

[[noreturn]] void stop(int status, const char* what, const char* cure) {
  fprintf(stderr, "llamalloc-replay: %s; %s\n", what, cure);
  exit(status);
}

// Zeroed memory that is no allocator's, all of it resident.
template <typename T>
T* pages_for(size_t count) {
  void* p = mmap(nullptr, (count + 1) * sizeof(T), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) stop(1, "no memory for the events", "replay a part: llamalloc trace cut");
  return static_cast<T*>(p);
}

struct Header {
  uint64_t steps;
  uint64_t slots;
  uint64_t duration;
};

void write_all(int file, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(file, at, bytes);
    if (written <= 0) stop(1, "no memory for the events", "replay a part: llamalloc trace cut");
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

// The trace as a header and its steps.
void convert(const std::string& name, int file) {
  std::string error;
  const auto input = open_trace(name, &error);
  if (input == nullptr) stop(1, error.c_str(), "record one with llamalloc trace");
  sim::Survey survey;
  if (!survey_trace(*input, &survey, &error)) stop(1, name.c_str(), error.c_str());
  Header header{survey.events, 0, survey.duration};
  write_all(file, &header, sizeof(header));
  sim::SlotTable slots;
  const auto source = input->open();
  Event events[1024];
  Step steps[1024] = {};
  while (const size_t count = source->read(events)) {
    for (size_t i = 0; i < count; ++i) {
      const Event& e = events[i];
      const uint32_t slot = e.kind == EventKind::allocate ? slots.add() : slots.find(e.object);
      if (e.kind == EventKind::free) slots.remove(e.object);
      steps[i] = {e.time, e.size, slot, e.kind, e.alignment_log2};
    }
    write_all(file, steps, count * sizeof(Step));
  }
  header.slots = slots.room();
  if (pwrite(file, &header, sizeof(header), 0) != sizeof(header)) exit(1);
}

// Another process reads the trace, so that the allocator of this one has not been used before.
Replay load(const std::string& name) {
  const int file = memfd_create("steps", 0);
  if (file < 0) stop(1, "no memory for the events", "it needs Linux 3.17");
  const pid_t child = fork();
  if (child == 0) {
    convert(name, file);
    exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(1);
  const auto bytes = static_cast<size_t>(lseek(file, 0, SEEK_END));
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  if (data == MAP_FAILED) stop(1, "no memory for the events", "replay a part: llamalloc trace cut");
  const auto* header = static_cast<const Header*>(data);
  Replay replay;
  replay.steps = reinterpret_cast<const Step*>(header + 1);
  replay.count = header->steps;
  replay.duration = header->duration;
  replay.objects = pages_for<void*>(header->slots);
  replay.sizes = pages_for<uint64_t>(header->slots);
  return replay;
}

uint64_t field(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at ? strtoull(at + strlen(name), nullptr, 10) * 1024 : 0;
}

// Without the allocator: open and read.
Sample look() {
  static char text[4096];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY);
  const ssize_t size = file < 0 ? -1 : read(file, text, sizeof(text) - 1);
  if (size <= 0) stop(1, "/proc/self/smaps_rollup cannot be read", "it needs Linux 4.14");
  close(file);
  text[size] = 0;
  return {0, 0, field(text, "\nRss:"), field(text, "\nAnonHugePages:")};
}

uint64_t clock_now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

void sleep_for(uint64_t nanoseconds) {
  const timespec time{static_cast<time_t>(nanoseconds / 1'000'000'000),
                      static_cast<long>(nanoseconds % 1'000'000'000)};
  nanosleep(&time, nullptr);
}

void touch(void* object, size_t from, size_t size) {
  volatile char* bytes = static_cast<char*>(object);
  for (size_t i = from; i < size; i += 4096) bytes[i] = 1;
  if (size > 0) bytes[size - 1] = 1;
}

void* allocate(const Step& step) {
  if (step.alignment_log2 <= 4) return malloc(step.size);
  return memalign(size_t{1} << step.alignment_log2, step.size);
}

void apply(Replay& replay, const Step& step, uint64_t& live) {
  void*& object = replay.objects[step.slot];
  uint64_t& size = replay.sizes[step.slot];
  if (step.kind == EventKind::free) {
    free(object);
    live -= size;
    return;
  }
  if (step.kind == EventKind::allocate) size = 0, object = nullptr;
  // realloc of no bytes would free the object.
  void* made = object ? realloc(object, step.size ? step.size : 1) : allocate(step);
  if (made == nullptr) stop(1, "out of memory", "replay a part: llamalloc trace cut");
  object = made;
  touch(object, size < step.size ? size : 0, step.size);
  live += step.size - size;
  size = step.size;
}

void wait_until(uint64_t start, uint64_t time, double speed) {
  if (speed <= 0) return;
  const uint64_t due = start + static_cast<uint64_t>(static_cast<double>(time) / speed);
  const uint64_t now = clock_now();
  if (due > now + 200'000) sleep_for(due - now);
}

void run(Replay& replay) {
  const uint64_t start = clock_now();
  uint64_t live = 0;
  size_t done = 0;
  const auto due = [&](size_t sample) {
    return static_cast<uint64_t>(static_cast<double>(replay.duration) *
                                 static_cast<double>(sample + 1) /
                                 static_cast<double>(replay.sample_count));
  };
  const auto sample_until = [&](uint64_t time) {
    for (; done < replay.sample_count && due(done) < time; ++done) {
      wait_until(start, due(done), replay.speed);
      replay.samples[done] = look();
      replay.samples[done].time = due(done);
      replay.samples[done].live = live;
    }
  };
  for (size_t i = 0; i < replay.count; ++i) {
    sample_until(replay.steps[i].time);
    if (i % 16 == 0) wait_until(start, replay.steps[i].time, replay.speed);
    apply(replay, replay.steps[i], live);
  }
  sample_until(UINT64_MAX);
}

// Whether this process gets any: what is resident depends on it.
bool has_huge_pages() {
  const char* setting = transparent_huge_pages(huge_page_switch());
  return strcmp(setting, "always") == 0 || strcmp(setting, "madvise") == 0;
}

void print(const Replay& replay, const Sample& before) {
  printf("{\"baseline\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"huge_pages\":%s,\"samples\":[",
         before.resident, replay.duration, has_huge_pages() ? "true" : "false");
  for (size_t i = 0; i < replay.sample_count; ++i) {
    const Sample& s = replay.samples[i];
    const uint64_t resident = s.resident > before.resident ? s.resident - before.resident : 0;
    const uint64_t huge = s.huge > before.huge ? s.huge - before.huge : 0;
    printf("%s{\"time_ns\":%" PRIu64 ",\"live\":%" PRIu64 ",\"resident\":%" PRIu64
           ",\"huge\":%" PRIu64 "}",
           i ? "," : "", s.time, s.live, resident, huge);
  }
  printf("]}\n");
}

double number(const char* option, const char* text, double least, double most) {
  char* end = nullptr;
  const double value = strtod(text, &end);
  if (end == text || *end != 0 || !(value >= least && value <= most))
    stop(2, (std::string(option) + " " + text + " is out of range").c_str(), "see --help");
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  static const option kOptions[] = {
      {"samples", 1, nullptr, 'n'}, {"speed", 1, nullptr, 's'}, {"help", 0, nullptr, 'h'}, {}};
  size_t samples = 100;
  double speed = 1;
  for (int c; (c = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) switch (c) {
      case 'n':
        samples = static_cast<size_t>(number("--samples", optarg, 1, 1e6));
        break;
      case 's':
        speed = number("--speed", optarg, 0, 1e9);
        break;
      case 'h':
        fputs(kHelp, stdout);
        return 0;
      default:
        return 2;
    }
  if (optind + 1 != argc) stop(2, "give exactly one trace", "see --help");
  Replay replay = load(argv[optind]);
  replay.sample_count = samples;
  replay.speed = speed;
  replay.samples = pages_for<Sample>(samples);
  const Sample before = look();
  run(replay);
  print(replay, before);
}
