// SPDX-License-Identifier: Apache-2.0
#include "profile/proto_writer.h"

#include <gtest/gtest.h>

#include "profile/profile_test_util.h"
#include "profile/scratch_pages.h"
#include "profile/string_table.h"

namespace llamalloc {
namespace {

std::string bytes_of(const ProtoWriter& proto) {
  return {reinterpret_cast<const char*>(proto.data()), proto.size()};
}

// The worked examples of the encoding guide.
TEST(ProtoWriter, EncodesTheExamplesOfTheGuide) {
  uint8_t buffer[64];
  ProtoWriter proto(buffer, sizeof(buffer));
  proto.number(1, 150);
  EXPECT_EQ(bytes_of(proto), "\x08\x96\x01");
  proto.clear();
  proto.text(2, "testing", 7);
  EXPECT_EQ(bytes_of(proto), "\x12\x07testing");
  proto.clear();
  const auto message = proto.open(3);
  proto.number(1, 150);
  proto.close(message);
  EXPECT_EQ(bytes_of(proto), "\x1A\x03\x08\x96\x01");
  proto.clear();
  const auto packed = proto.open(6);
  for (const int v : {3, 270, 86942}) proto.varint(static_cast<uint64_t>(v));
  proto.close(packed);
  EXPECT_EQ(bytes_of(proto), "\x32\x06\x03\x8E\x02\x9E\xA7\x05");
  EXPECT_TRUE(proto.ok());
}

TEST(ProtoWriter, NestsMessagesWhoseLengthTakesTwoBytes) {
  uint8_t buffer[1024];
  ProtoWriter proto(buffer, sizeof(buffer));
  const std::string text(300, 'a');
  const auto outer = proto.open(15), inner = proto.open(16);
  proto.text(1, text.data(), text.size());
  proto.number(2, UINT64_MAX);
  proto.close(inner);
  proto.close(outer);
  const test::Message m = test::parse(test::parse(bytes_of(proto)).bytes.at(15).at(0));
  const test::Message content = test::parse(m.bytes.at(16).at(0));
  EXPECT_EQ(content.bytes.at(1).at(0), text);
  EXPECT_EQ(content.numbers.at(2).at(0), UINT64_MAX);
}

TEST(ProtoWriter, NeverWritesBehindItsBuffer) {
  for (size_t room = 0; room <= 24; ++room) {
    std::vector<uint8_t> buffer(room + 1, 0xEE);
    ProtoWriter proto(buffer.data(), room);
    const auto message = proto.open(2);
    proto.number(1, uint64_t{1} << 63);
    proto.text(3, "0123456", 7);
    proto.close(message);
    EXPECT_EQ(proto.ok(), room >= 22) << room;
    EXPECT_EQ(buffer[room], 0xEE);
  }
}

TEST(StringTable, KeepsEachStringOnce) {
  MetadataArena arena(system_pages);
  auto* table = arena.make<StringTable>(arena);
  EXPECT_EQ(table->id(""), 0u);
  for (int round = 0; round < 2; ++round)
    for (uint32_t i = 1; i < 5000; ++i)
      ASSERT_EQ(table->id(("name" + std::to_string(i)).c_str()), i);
  EXPECT_EQ(table->id("name17 and more", 6), 17u);
  EXPECT_EQ(std::string(table->text(17), table->length(17)), "name17");
  EXPECT_EQ(table->size(), 5000u);
  EXPECT_TRUE(table->ok());
}

TEST(StringTable, SaysWhenMemoryRanOut) {
  test::LimitedPages pages(512 * 1024);
  MetadataArena arena(pages);
  auto* table = arena.make<StringTable>(arena);
  ASSERT_NE(table, nullptr);
  for (uint32_t i = 1; i < 100'000; ++i) table->id(("name" + std::to_string(i)).c_str());
  EXPECT_FALSE(table->ok());
}

TEST(ScratchPages, GivesBackAllItMapped) {
  test::LimitedPages pages;
  {
    ScratchPages scratch(pages);
    MetadataArena arena(scratch);
    for (int i = 0; i < 100; ++i) {
      char* p = static_cast<char*>(arena.allocate(10'000, 64));
      ASSERT_NE(p, nullptr);
      memset(p, i, 10'000);
    }
    ASSERT_NE(arena.allocate(3 << 20), nullptr);
    EXPECT_GT(pages.mapped, size_t{4} << 20);
  }
  EXPECT_EQ(pages.mapped, 0u);
}

}  // namespace
}  // namespace llamalloc
