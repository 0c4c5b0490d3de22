// SPDX-License-Identifier: Apache-2.0
// Traces for tests: the golden one, random ones, and files in memory.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "trace/chunk_builder.h"
#include "trace/event.h"
#include "trace_file/trace_reader.h"
#include "trace_file/trace_writer.h"

namespace llamalloc::trace {

inline bool operator==(const Event& a, const Event& b) {
  return a.time == b.time && a.object == b.object && a.size == b.size && a.stack == b.stack &&
         a.thread == b.thread && a.kind == b.kind && a.alignment_log2 == b.alignment_log2;
}
inline void PrintTo(const Event& e, std::ostream* out) {
  *out << "{t " << e.time << " o " << e.object << " size " << e.size << " stack " << e.stack
       << " thread " << e.thread << " kind " << static_cast<int>(e.kind) << " align "
       << static_cast<int>(e.alignment_log2) << "}";
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
inline std::string golden_path(const char* name) {
  return std::string(LLAMALLOC_SOURCE_DIR "/contracts/golden/") + name;
}
inline std::string temporary_path(const char* name) {
  return testing::TempDir() + "/" + std::to_string(getpid()) + "_" + name;
}

// python/tests/support/golden_trace.py
inline std::vector<Event> golden_events() {
  constexpr auto allocate = EventKind::allocate, resize = EventKind::resize,
                 release = EventKind::free;
  return {
      {100, 0, 40, 1, 0, allocate, 4}, {250, 1, 5000, 2, 0, allocate, 12},
      {420, 2, 16, 0, 1, allocate, 4}, {450, 0, 80, 2, 0, resize, 4},
      {900, 1, 0, 0, 0, release, 0},   {950, 2, 0, 0, 1, release, 0},
      {960, 3, 1, 1, 1, allocate, 40}, {1100, 3, 0, 0, 1, release, 0},
  };
}
inline Tables golden_tables() {
  Tables tables;
  tables.modules = {{"/usr/bin/server", "abcdef01", 0x400000, 0x500000, 0x1000}};
  tables.frames = {
      {0x401000, 0, "make_session"}, {0x402000, 0, "main"}, {0x7F00, Frame::kNoModule, "?"}};
  tables.stacks.add(std::vector<uint32_t>{0, 1});
  tables.stacks.add(std::vector<uint32_t>{2, 1});
  return tables;
}

inline std::vector<Event> read_all(TraceReader& reader, size_t at_a_time = 64) {
  std::vector<Event> all, some(at_a_time);
  while (const size_t count = reader.read(some))
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  return all;
}

// Bytes that stay where they are as long as the reader over them.
struct MemoryTrace {
  explicit MemoryTrace(std::string data) : bytes(std::move(data)) {
    if (auto file = ChunkFile::over(bytes.data(), bytes.size(), "t.trace", &error))
      reader = TraceReader::over(std::move(file), &error);
  }
  std::string bytes;
  std::string error;
  std::unique_ptr<TraceReader> reader;
};

// A valid sequence of events; threads are numbered in order of appearance.
inline std::vector<Event> random_events(size_t count, uint64_t seed, uint32_t stacks) {
  std::mt19937_64 random(seed);
  std::vector<Event> events;
  std::vector<uint64_t> live;
  std::vector<uint32_t> numbers(16, ~0u);
  uint64_t time = 0, next = 0;
  uint32_t threads = 0;
  while (events.size() < count) {
    time += random() % 5 ? random() % 300 : random() % 10'000'000;
    uint32_t& thread = numbers[random() % numbers.size()];
    if (thread == ~0u) thread = threads++;
    const uint64_t size = random() >> (1 + random() % 60);
    const auto stack = static_cast<uint32_t>(random() % stacks);
    const auto align = static_cast<uint8_t>(random() % 10 ? 4 : random() % 64);
    const uint64_t action = random() % 10;
    const size_t i = live.empty() ? 0 : random() % live.size();
    if (live.empty() || action < 5) {
      live.push_back(next);
      events.push_back({time, next++, size, stack, thread, EventKind::allocate, align});
    } else if (action == 5) {
      events.push_back({time, live[i], size, stack, thread, EventKind::resize, 4});
    } else {
      events.push_back({time, live[i], 0, 0, thread, EventKind::free, 0});
      live[i] = live.back();
      live.pop_back();
    }
  }
  return events;
}

inline std::string write_trace(const char* name, const Tables& tables,
                               const std::vector<Event>& events, int level) {
  const std::string path = temporary_path(name);
  std::string error;
  TraceFileOptions options{4711, 1'700'000'000'000'000'000, "./server --port 7000", level, true};
  auto writer = TraceFileWriter::create(path, options, &error);
  EXPECT_NE(writer, nullptr) << error;
  writer->add_tables(tables);
  writer->write(events);
  EXPECT_TRUE(writer->close(&error)) << error;
  return path;
}

}  // namespace llamalloc::trace
