// SPDX-License-Identifier: Apache-2.0
// Bytes of the state file: the golden one both ways, and every kind of damage.
#include "learning/learned_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "base/crc32.h"
#include "learning/learned_layout.h"
#include "learning/test_learned.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

constexpr size_t kVersionAt = 8, kCountAt = 12, kNameAt = 24, kVerdictAt = 60, kReversalsAt = 61,
                 kBlindAt = 64, kPlacedAt = 84;
constexpr size_t kLevelAt = kLearnedHeaderBytes + 8;
constexpr size_t kParentAt = 40, kWordAt = 48;  // in a node
constexpr char kReplaced[] = "; it is not used, and replaced at the next write";

std::string content(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string laid_out(const LearnedHeader& header) {
  uint8_t bytes[kLearnedHeaderBytes];
  const LearnedStart start{};
  LittleEndianOut out(bytes);
  lay_out_header(out, start, header);
  EXPECT_EQ(out.end(), bytes + sizeof(bytes));
  return std::string(reinterpret_cast<char*>(bytes), sizeof(bytes));
}

// With its checksum set right again.
std::string sealed(std::string bytes) {
  const uint32_t crc = crc32(0, bytes.data(), bytes.size() - 4);
  for (size_t i = 0; i < 4; ++i) bytes[bytes.size() - 4 + i] = static_cast<char>(crc >> 8 * i);
  return bytes;
}

class LearnedStateTest : public testing::Test {
 protected:
  ~LearnedStateTest() override {
    state_.give_back();
    EXPECT_EQ(pages_.mapped, 0u);
  }

  ReadStatus parse(const std::string& bytes, const LearnedProgram& program = golden_program()) {
    ErrorText error(message_, sizeof(message_));
    state_.give_back();
    // Exactly as long, so that the sanitizers see a read behind it.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const ReadStatus status =
        parse_learned_state(exact.data(), exact.size(), program, pages_, &state_, error);
    EXPECT_EQ(message_[0] == 0, status == ReadStatus::ok) << message_;
    EXPECT_TRUE(is_usable(status) || state_.nodes.size() + state_.frames.size() == 0);
    return status;
  }
  // Damaged, and why.
  std::string damage(const std::string& bytes) {
    EXPECT_EQ(parse(bytes), ReadStatus::damaged) << message_;
    const std::string message = message_;
    EXPECT_TRUE(message.ends_with(kReplaced)) << message;
    return message.substr(0, message.size() - strlen(kReplaced));
  }
  std::string with(size_t at, const std::string& part) {
    return sealed(std::string(golden_).replace(at, part.size(), part));
  }

  std::string golden_ = content(kGoldenState);
  FakePages pages_;
  LearnedState state_;
  char message_[512];
};

TEST_F(LearnedStateTest, ReadsTheGoldenFile) {
  ASSERT_EQ(parse(golden_), ReadStatus::ok);
  EXPECT_EQ(laid_out(state_.header), laid_out(golden_header()));
  const auto nodes = golden_nodes();
  ASSERT_EQ(state_.nodes.size(), nodes.size());
  EXPECT_EQ(memcmp(state_.nodes.data(), nodes.data(), nodes.size() * sizeof(LearnedNode)), 0);
  const auto frames = golden_frames();
  ASSERT_EQ(state_.frames.size(), frames.size());
  EXPECT_TRUE(std::ranges::equal(state_.frames.view(), frames));
  EXPECT_EQ(state_.header.modules, golden_header().modules);
}

TEST_F(LearnedStateTest, ReadsAFileOfVersion1) {
  ASSERT_EQ(parse(content(kGoldenOldState)), ReadStatus::ok);
  EXPECT_EQ(laid_out(state_.header), laid_out(golden_header()));
  EXPECT_EQ(state_.header.modules, 0u);
  EXPECT_EQ(state_.frames.size(), 0u);
  auto nodes = golden_nodes();
  for (LearnedNode& node : nodes) node.parent = node.word = 0;
  ASSERT_EQ(state_.nodes.size(), nodes.size());
  EXPECT_EQ(memcmp(state_.nodes.data(), nodes.data(), nodes.size() * sizeof(LearnedNode)), 0);
}

TEST_F(LearnedStateTest, RefusesEveryTruncationAndWhatIsBehind) {
  for (size_t length = 0; length < golden_.size(); ++length)
    ASSERT_EQ(parse(golden_.substr(0, length)), ReadStatus::damaged) << length;
  const std::string old = content(kGoldenOldState);
  EXPECT_EQ(damage(old.substr(0, 227)), "its numbers say 228 bytes, it has 227");
  EXPECT_EQ(damage(old + "x"), "its numbers say 228 bytes, it has 229");
  EXPECT_EQ(damage(golden_.substr(0, 20)), "truncated");
}

TEST_F(LearnedStateTest, RefusesEveryFlippedBit) {
  for (size_t bit = 0; bit < golden_.size() * 8; ++bit) {
    std::string bytes = golden_;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    ASSERT_FALSE(is_usable(parse(bytes))) << bit;
  }
}

TEST_F(LearnedStateTest, TellsWhatACrashLeftFromWhatIsNoStateFile) {
  EXPECT_EQ(damage(""), "empty");
  EXPECT_EQ(damage(std::string(5000, '\0')), "empty");
  EXPECT_EQ(damage("llmle"), "truncated");
  for (const char* text : {"x", "hello", "hello, this is a rather long text"}) {
    EXPECT_EQ(parse(text), ReadStatus::unreadable);
    EXPECT_STREQ(message_, "not a state file; it is left alone: name another file, or a folder");
  }
}

TEST_F(LearnedStateTest, AnotherVersionIsLeftAlone) {
  EXPECT_EQ(parse(with(kVersionAt, "\3")), ReadStatus::other_version);
  EXPECT_STREQ(
      message_,
      "version 3, this library reads 1 and 2; it is left alone: remove it, or name another "
      "file");
  EXPECT_FALSE(may_replace(ReadStatus::other_version));
}

TEST_F(LearnedStateTest, TellsAnotherProgramFromAnotherBuild) {
  EXPECT_EQ(parse(golden_, {golden_build(), "mariadbd"}), ReadStatus::other_program);
  EXPECT_STREQ(message_,
               "learned in the program redis-server, and this is mariadbd; it is left alone: name "
               "a folder");
  EXPECT_EQ(parse(golden_, {golden_build() + 2, "redis-server"}), ReadStatus::other_build);
  EXPECT_EQ(state_.nodes.size(), 3u);
  EXPECT_STREQ(message_, "of another build of redis-server");
  EXPECT_EQ(parse(golden_, {}), ReadStatus::ok);
}

TEST_F(LearnedStateTest, RefusesHeadersThatAreNotSane) {
  for (const std::string& name : {std::string(1, '\0'), std::string("a/b"), std::string("a b"),
                                  std::string("a\0b", 3), std::string(32, 'x'), std::string("\n")})
    EXPECT_EQ(damage(with(kNameAt, name)), "its header is not sane") << name;
  EXPECT_EQ(damage(with(kCountAt, "\xFF\xFF\xFF\xFF")), "too many nodes");
}

TEST_F(LearnedStateTest, RefusesAGateThatIsNotSane) {
  const std::string most("\x40\x42\x0f\0", 4), more("\x41\x42\x0f\0", 4);  // 1,000,000
  const std::string none(4, '\xff');
  EXPECT_EQ(damage(with(kVerdictAt, "\5")), "its header is not sane");
  EXPECT_EQ(damage(with(kReversalsAt, "\6")), "its header is not sane");
  EXPECT_EQ(damage(with(kBlindAt, std::string(4, '\0'))), "its header is not sane") << "untried";
  EXPECT_EQ(parse(with(kPlacedAt, std::string(4, '\0'))), ReadStatus::ok);
  for (const size_t waste : {kBlindAt, kPlacedAt}) {
    EXPECT_EQ(parse(with(waste, std::string("\0\0\x10\0", 4))), ReadStatus::ok);
    EXPECT_EQ(damage(with(waste, std::string("\1\0\x10\0", 4))), "its header is not sane");
    for (size_t at = waste + 4; at < waste + 20; at += 4) {
      EXPECT_EQ(parse(with(at, most)), ReadStatus::ok) << at;
      EXPECT_EQ(damage(with(at, more)), "its header is not sane") << at;
    }
    EXPECT_EQ(parse(with(waste + 4, none)), ReadStatus::ok) << "no high load was seen";
    EXPECT_EQ(damage(with(waste + 8, none)), "its header is not sane");
  }
}

TEST_F(LearnedStateTest, ReadsLevels) {
  const std::string no_path(16, '\0');  // which would say level 2
  golden_.replace(kLearnedHeaderBytes + kParentAt, no_path.size(), no_path);
  ASSERT_EQ(parse(with(kLevelAt, "\x41")), ReadStatus::ok);
  EXPECT_EQ(state_.nodes.data()[0].level, 65);
  EXPECT_FALSE(state_.nodes.data()[0].differs);
  ASSERT_EQ(parse(with(kLevelAt, "\xc1")), ReadStatus::ok);
  EXPECT_EQ(state_.nodes.data()[0].level, 65);
  EXPECT_TRUE(state_.nodes.data()[0].differs);
}

TEST_F(LearnedStateTest, RefusesNodesThatAreNotSane) {
  const std::string first = golden_.substr(kLearnedHeaderBytes, kLearnedNodeBytes);
  const std::string second =
      golden_.substr(kLearnedHeaderBytes + kLearnedNodeBytes, kLearnedNodeBytes);
  const char* fault = "its nodes are not sane";
  EXPECT_EQ(damage(with(kLearnedHeaderBytes, second + first)), fault);
  EXPECT_EQ(damage(with(kLearnedHeaderBytes, first + first)), fault);
  for (const char* level : {"\x80", "\x42", "\xc2", "\x7f", "\xff"})
    EXPECT_EQ(damage(with(kLevelAt, level)), fault) << +*level;
  EXPECT_EQ(damage(with(kLevelAt, std::string(1, '\0'))), fault);
  EXPECT_EQ(damage(with(kLearnedHeaderBytes + 10, std::string(30, '\0'))), fault);
}

// Else a damaged path would carry a node over to a key that it never had.
TEST_F(LearnedStateTest, RefusesPathsThatDoNotLeadToTheKey) {
  const char* fault = "its nodes are not sane";
  const size_t of_second = kLearnedHeaderBytes + kLearnedNodeBytes;
  EXPECT_EQ(damage(with(kLearnedHeaderBytes + kParentAt, "x")), fault);
  EXPECT_EQ(damage(with(kLearnedHeaderBytes + kWordAt, "x")), fault);
  EXPECT_EQ(damage(with(kLearnedHeaderBytes + kParentAt, std::string(8, '\0'))), fault);
  EXPECT_EQ(damage(with(of_second + 8, "\3")), fault) << "only level 1 extends the root";
  EXPECT_EQ(parse(with(kLearnedHeaderBytes + kParentAt, std::string(16, '\0'))), ReadStatus::ok);
  EXPECT_FALSE(state_.nodes.data()[0].path_is_known());
}

TEST_F(LearnedStateTest, RefusesFramesThatAreNotSane) {
  const size_t frames = kLearnedHeaderBytes + 3 * kLearnedNodeBytes;
  const std::string first = golden_.substr(frames, kLearnedFrameBytes);
  EXPECT_EQ(damage(with(frames + kLearnedFrameBytes, first)), "its nodes are not sane");
  const size_t count = golden_.size() - 8;
  for (const char* wrong : {"\1", "\3", "\xff\xff\xff\xff"})
    EXPECT_TRUE(damage(with(count, wrong)).starts_with("its numbers say")) << wrong;
}

TEST_F(LearnedStateTest, SurvivesRandomDamageUnderARightChecksum) {
  std::minstd_rand random(5);
  int usable = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = golden_;
    for (auto edits = 1 + random() % 3; edits > 0; --edits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (is_usable(parse(sealed(bytes)))) {
      ++usable;
      EXPECT_TRUE(is_sorted(state_.nodes.view()));
    }
  }
  EXPECT_GT(usable, 1'000);
  EXPECT_LT(usable, 19'000);
}

TEST_F(LearnedStateTest, EncodesTheGoldenFile) {
  auto nodes = golden_nodes();
  std::string bytes(encoded_bytes(nodes, golden_frames()), '\0');
  encode_learned_state(golden_header(), nodes, golden_frames(),
                       reinterpret_cast<uint8_t*>(bytes.data()));
  EXPECT_EQ(bytes, golden_);
}

TEST_F(LearnedStateTest, EncodesNoNodesWithoutSamples) {
  auto nodes = golden_nodes();
  nodes[1].evidence = {};
  std::string bytes(encoded_bytes(nodes, golden_frames()), '\0');
  encode_learned_state(golden_header(), nodes, golden_frames(),
                       reinterpret_cast<uint8_t*>(bytes.data()));
  ASSERT_EQ(parse(bytes), ReadStatus::ok) << message_;
  EXPECT_EQ(state_.nodes.size(), 2u);
}

TEST_F(LearnedStateTest, WithoutMemoryItIsNotUsed) {
  pages_.calls_left = 0;
  EXPECT_EQ(parse(golden_), ReadStatus::unreadable);
}

}  // namespace
}  // namespace llamalloc
