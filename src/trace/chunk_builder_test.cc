// SPDX-License-Identifier: Apache-2.0
#include "trace/chunk_builder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace llamalloc::trace {
namespace {

std::string golden(const char* name) {
  std::ifstream file(std::string(LLAMALLOC_SOURCE_DIR "/contracts/golden/") + name,
                     std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Builder {
  explicit Builder(ChunkKind kind, uint32_t stream) {
    chunk.use(memory.data(), memory.size(), kind, stream);
  }
  std::string bytes() {
    chunk.seal();
    return {reinterpret_cast<const char*>(chunk.data()), chunk.size()};
  }
  std::vector<uint8_t> memory = std::vector<uint8_t>(4096);
  ChunkBuilder chunk;
};

// The streams of python/tests/support/golden_trace.py.
TEST(ChunkBuilder, WritesTheGoldenBytes) {
  Builder first(ChunkKind::observed, 0), second(ChunkKind::observed, 7);
  first.chunk.begin(0, 100);
  first.chunk.allocate(100, 0x10000, 40, 1, 4);
  first.chunk.allocate(250, 0x10040, 5000, 2, 12);
  first.chunk.resize_begin(400, 0x10000);
  first.chunk.resize_end(450, 0x20000, 80, 2);
  first.chunk.free(900, 0x10040);
  first.chunk.resize_begin(1000, 0x20000);
  first.chunk.resize_failed(1010, 0x20000);
  second.chunk.begin(7, 420);
  second.chunk.allocate(420, 0x10000, 16, 0, 4);
  second.chunk.free(950, 0x10000);
  second.chunk.allocate(960, 0x10040, 1, 1, 40);
  second.chunk.free(1100, 0x10040);
  const std::string file = golden("trace_v1_observed.trace");
  ASSERT_FALSE(file.empty());
  EXPECT_NE(file.find(first.bytes() + second.bytes()), std::string::npos);
}

TEST(ChunkBuilder, TakesTheLargestRecordUntilItIsFull) {
  Builder builder(ChunkKind::observed, 1);
  const uint64_t most = ~uint64_t{0};
  uint64_t time = 0;
  builder.chunk.begin(~0u, time);
  uint32_t count = 0;
  for (uint32_t thread = 0; !builder.chunk.is_full(); ++count) {
    builder.chunk.change_thread(thread ^= ~0u);
    builder.chunk.allocate(time += most / 100, count % 2 ? 0 : most, most, ~0u, 63);
    ASSERT_LE(builder.chunk.size(), builder.memory.size());
  }
  EXPECT_GT(count, 50u);
  builder.chunk.seal();
  EXPECT_EQ(builder.chunk.header().count, count);
}

}  // namespace
}  // namespace llamalloc::trace
