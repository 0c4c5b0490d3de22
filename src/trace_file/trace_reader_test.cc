// SPDX-License-Identifier: Apache-2.0
#include "trace_file/trace_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "trace_file/test_traces.h"

namespace llamalloc::trace {
namespace {

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, ReadsBackAsItsEvents) {
  std::string error;
  auto reader = TraceReader::open(golden_path(GetParam()), &error);
  ASSERT_NE(reader, nullptr) << error;
  for (const size_t at_a_time : {1u, 2u, 3u, 100u}) {
    reader->rewind();
    EXPECT_EQ(read_all(*reader, at_a_time), golden_events());
    EXPECT_EQ(reader->error(), "");
  }
  EXPECT_EQ(reader->missing_frees() + reader->unknown_frees(), 0u);
}

TEST_P(Golden, HasItsTables) {
  std::string error;
  auto reader = TraceReader::open(golden_path(GetParam()), &error);
  ASSERT_NE(reader, nullptr) << error;
  EXPECT_EQ(reader->contents().command, "./server --port 7000");
  EXPECT_TRUE(reader->contents().ended_in_order);
  EXPECT_EQ(reader->file().header().pid, 4711u);
  const Tables &found = reader->tables(), wanted = golden_tables();
  ASSERT_EQ(found.stacks.size(), wanted.stacks.size());
  for (uint32_t i = 0; i < wanted.stacks.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(found.stacks[i], wanted.stacks[i])) << i;
  ASSERT_EQ(found.frames.size(), wanted.frames.size());
  for (size_t i = 0; i < wanted.frames.size(); ++i) {
    EXPECT_EQ(found.frames[i].name, wanted.frames[i].name);
    EXPECT_EQ(found.frames[i].address, wanted.frames[i].address);
    EXPECT_EQ(found.frames[i].module, wanted.frames[i].module);
  }
  ASSERT_EQ(found.modules.size(), 1u);
  EXPECT_EQ(found.modules[0].path, "/usr/bin/server");
  EXPECT_EQ(found.modules[0].build_id, "abcdef01");
  EXPECT_EQ(found.modules[0].file_offset, 0x1000u);
}

// Every byte in turn: an error that says where, or (nothing of the kind is left out by accident)
// the same events; never a crash.
TEST_P(Golden, DamageAnywhereIsTold) {
  const std::string bytes = read_bytes(golden_path(GetParam()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1 << i % 8);
    MemoryTrace trace(damaged);
    ASSERT_EQ(trace.reader, nullptr) << i;
    if (i >= 12) {
      EXPECT_NE(trace.error.find("t.trace: byte "), std::string::npos) << trace.error;
    }
  }
}

TEST_P(Golden, ACutEndLosesOnlyTheEnd) {
  const std::string bytes = read_bytes(golden_path(GetParam()));
  for (size_t size = 0; size < bytes.size(); ++size) {
    MemoryTrace trace(bytes.substr(0, size));
    if (size < sizeof(FileHeader)) {
      EXPECT_NE(trace.error.find("not a trace"), std::string::npos);
      continue;
    }
    ASSERT_NE(trace.reader, nullptr) << size << trace.error;
    const auto events = read_all(*trace.reader);
    EXPECT_EQ(trace.reader->error(), "");
    EXPECT_FALSE(trace.reader->contents().ended_in_order);
    EXPECT_LE(events.size(), golden_events().size());
  }
}

TEST_P(Golden, IsReadThroughZstd) {
  const std::string bytes = read_bytes(golden_path(GetParam()));
  std::string packed(ZSTD_compressBound(bytes.size()), 0);
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3));
  const std::string path = temporary_path("t.trace.zst");
  std::ofstream(path, std::ios::binary) << packed;
  std::string error;
  auto reader = TraceReader::open(path, &error);
  ASSERT_NE(reader, nullptr) << error;
  EXPECT_EQ(read_all(*reader), golden_events());
  std::ofstream(path, std::ios::binary) << packed.substr(0, 4) + "nonsense";
  error.clear();
  EXPECT_EQ(TraceReader::open(path, &error), nullptr);
  EXPECT_NE(error.find("damaged"), std::string::npos) << error;
  unlink(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(, Golden, testing::Values("trace_v1_observed.trace", "trace_v1.trace"));

TEST(TraceReader, SaysWhatItCannotRead) {
  std::string error;
  EXPECT_EQ(TraceReader::open("/none/t.trace", &error), nullptr);
  EXPECT_EQ(error, "/none/t.trace: No such file or directory");
  EXPECT_EQ(TraceReader::open("/", &error), nullptr);
  EXPECT_NE(error.find("not a regular file"), std::string::npos);
  const std::string pipe = temporary_path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(TraceReader::open(pipe, &error), nullptr);
  EXPECT_NE(error.find("pipe: not a regular file"), std::string::npos) << error;
  unlink(pipe.c_str());
  EXPECT_NE(MemoryTrace("").error.find("llamalloc trace -o"), std::string::npos);
  FileHeader newer = make_file_header(1, 2);
  newer.version = 9;
  const std::string bytes(reinterpret_cast<char*>(&newer), sizeof(newer));
  EXPECT_NE(MemoryTrace(bytes).error.find("version 9"), std::string::npos);
}

// Streams by hand, as a recorder writes them.
class Recorded {
 public:
  Recorded() : file_(4096) {
    const FileHeader header = make_file_header(1, 2);
    bytes_.assign(reinterpret_cast<const char*>(&header), sizeof(header));
  }
  template <typename Fill>
  Recorded& stream(uint32_t number, uint64_t time, Fill&& fill) {
    ChunkBuilder chunk;
    chunk.use(file_.data(), file_.size(), ChunkKind::observed, number);
    chunk.begin(number, time);
    fill(chunk);
    chunk.seal();
    bytes_.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> file_;
  std::string bytes_;
};

TEST(TraceReader, MergesChunksThatWereWrittenLate) {
  Recorded recorded;
  recorded.stream(0, 50,
                  [](ChunkBuilder& c) { c.allocate(50, 0x100, 1, 0, 4), c.free(90, 0x100); });
  recorded.stream(0, 100, [](ChunkBuilder& c) { c.allocate(100, 0x100, 2, 0, 4); });
  recorded.stream(1, 10, [](ChunkBuilder& c) {
    c.allocate(10, 0x200, 3, 0, 4);
    c.allocate(95, 0x100, 4, 0, 4);
    c.free(99, 0x100);
  });
  MemoryTrace trace(recorded.bytes());
  ASSERT_NE(trace.reader, nullptr) << trace.error;
  std::vector<uint64_t> sizes, times;
  for (const Event& event : read_all(*trace.reader)) {
    times.push_back(event.time);
    sizes.push_back(event.size);
  }
  EXPECT_EQ(times, (std::vector<uint64_t>{10, 50, 90, 95, 99, 100}));
  EXPECT_EQ(sizes, (std::vector<uint64_t>{3, 1, 0, 4, 0, 2}));
  EXPECT_EQ(trace.reader->missing_frees() + trace.reader->unknown_frees(), 0u);
}

TEST(TraceReader, AFreeComesFirstAmongEqualTimes) {
  Recorded recorded;
  recorded.stream(0, 5, [](ChunkBuilder& c) { c.allocate(5, 0x100, 1, 0, 4), c.free(20, 0x100); });
  recorded.stream(1, 20, [](ChunkBuilder& c) { c.allocate(20, 0x100, 2, 0, 4); });
  MemoryTrace trace(recorded.bytes());
  const auto events = read_all(*trace.reader);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].kind, EventKind::free);
  EXPECT_EQ(trace.reader->missing_frees(), 0u);
}

TEST(TraceReader, SuppliesFreesThatAKilledProcessLost) {
  Recorded recorded;
  recorded.stream(0, 5, [](ChunkBuilder& c) {
    c.free(5, 0x300);
    c.allocate(6, 0x100, 1, 0, 4);
    c.allocate(7, 0x100, 2, 0, 4);
  });
  MemoryTrace trace(recorded.bytes());
  const std::vector<Event> wanted = {{6, 0, 1, 0, 0, EventKind::allocate, 4},
                                     {7, 0, 0, 0, 0, EventKind::free, 0},
                                     {7, 1, 2, 0, 0, EventKind::allocate, 4}};
  for (const size_t at_a_time : {1u, 2u, 8u}) {
    trace.reader->rewind();
    EXPECT_EQ(read_all(*trace.reader, at_a_time), wanted);
    EXPECT_EQ(trace.reader->missing_frees(), 1u);
    EXPECT_EQ(trace.reader->unknown_frees(), 1u);
  }
}

TEST(TraceReader, RefusesStacksThatAreNotThere) {
  Recorded recorded;
  recorded.stream(0, 5, [](ChunkBuilder& c) { c.allocate(6, 0x100, 1, 77, 4); });
  MemoryTrace trace(recorded.bytes());
  ASSERT_NE(trace.reader, nullptr);
  EXPECT_TRUE(read_all(*trace.reader).empty());
  EXPECT_TRUE(read_all(*trace.reader).empty());
  EXPECT_NE(trace.reader->error().find("byte 32: an event refers to an unknown stack"),
            std::string::npos);
}

// Found by fuzzing: events before the fault are given, and none after.
TEST(TraceReader, EndsAtTheFault) {
  Recorded recorded;
  recorded.stream(0, 5, [](ChunkBuilder& c) {
    c.allocate(6, 0x100, 1, 0, 4);
    c.free(7, 0x100);
    c.allocate(8, 0x100, 1, 77, 4);
  });
  MemoryTrace trace(recorded.bytes());
  EXPECT_EQ(read_all(*trace.reader, 1).size(), 2u);
  EXPECT_NE(trace.reader->error(), "");
}

}  // namespace
}  // namespace llamalloc::trace
