// SPDX-License-Identifier: Apache-2.0
#include "tools/replay_steps.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "sim/survey.h"
#include "tools/trace_argument.h"

namespace llamalloc {
namespace {

using trace::Event;
using trace::EventKind;

constexpr char kNoMemory[] = "no memory for the events";
constexpr char kCut[] = "replay a part: llamalloc trace cut";
constexpr uint64_t kMostThreads = UINT16_MAX + uint64_t{1};

struct Header {
  uint64_t steps;
  uint64_t slots;
  uint64_t threads;
  uint64_t duration;
};

void write_all(int file, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(file, at, bytes);
    if (written <= 0) stop_replay(1, kNoMemory, kCut);
    at += written;
    bytes -= static_cast<size_t>(written);
  }
}

Step step_of(const Event& e, sim::SlotTable& slots) {
  const uint32_t slot = e.kind == EventKind::allocate ? slots.add() : slots.find(e.object);
  if (e.kind == EventKind::free) slots.remove(e.object);
  return {e.time, e.size, slot, static_cast<uint16_t>(e.thread), e.kind, e.alignment_log2};
}

// The trace as a header and its steps.
void convert(const std::string& name, int file) {
  std::string error;
  const auto input = open_trace(name, &error);
  if (input == nullptr) stop_replay(1, error.c_str(), "record one with llamalloc trace");
  sim::Survey survey;
  if (!survey_trace(*input, &survey, &error)) stop_replay(1, name.c_str(), error.c_str());
  const uint64_t threads = survey.thread_ends.size();
  if (threads > kMostThreads) stop_replay(1, "the trace has over 65536 threads", kCut);
  Header header{survey.events, 0, threads, survey.duration};
  write_all(file, &header, sizeof(header));
  sim::SlotTable slots;
  const auto source = input->open();
  Event events[1024];
  Step steps[1024] = {};
  while (const size_t count = source->read(events)) {
    for (size_t i = 0; i < count; ++i) steps[i] = step_of(events[i], slots);
    write_all(file, steps, count * sizeof(Step));
  }
  header.slots = slots.room();
  if (pwrite(file, &header, sizeof(header), 0) != sizeof(header)) exit(1);
}

}  // namespace

void stop_replay(int status, const char* what, const char* cure) {
  fprintf(stderr, "llamalloc-replay: %s; %s\n", what, cure);
  exit(status);
}

void* resident_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) stop_replay(1, kNoMemory, kCut);
  return p;
}

Steps load_steps(const std::string& trace) {
  const int file = memfd_create("steps", 0);
  if (file < 0) stop_replay(1, kNoMemory, "it needs Linux 3.17");
  const pid_t child = fork();
  if (child == 0) {
    convert(trace, file);
    exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(1);
  const auto bytes = static_cast<size_t>(lseek(file, 0, SEEK_END));
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  if (data == MAP_FAILED) stop_replay(1, kNoMemory, kCut);
  const auto* header = static_cast<const Header*>(data);
  return {reinterpret_cast<const Step*>(header + 1), header->steps, header->slots, header->threads,
          header->duration};
}

}  // namespace llamalloc
