// SPDX-License-Identifier: Apache-2.0
#include "predict/vocabulary.h"

#include <gtest/gtest.h>

#include <string>

namespace llamalloc {
namespace {

class VocabularyTest : public testing::Test {
 protected:
  // What build() says about the text; empty: nothing wrong.
  std::string built(const std::string& text) {
    text_ = text;
    char message[256];
    ErrorText error(message, sizeof(message));
    const bool good = vocabulary_.build(text_.data(), text_.size(), arena_, error);
    EXPECT_NE(good, error.failed());
    return message;
  }
  uint32_t word(const std::string& text) {
    return vocabulary_.id({text.data(), static_cast<uint32_t>(text.size()), true});
  }

  MetadataArena arena_{system_pages};
  Vocabulary vocabulary_;
  std::string text_;
};

TEST_F(VocabularyTest, GivesEveryTokenItsLineNumber) {
  std::string text = "<unk>";
  for (int i = 1; i < 20'000; ++i) text += "\ntoken" + std::to_string(i);
  ASSERT_EQ(built(text), "");
  EXPECT_EQ(vocabulary_.size(), 20'000u);
  for (int i = 1; i < 20'000; ++i)
    ASSERT_EQ(word("token" + std::to_string(i)), static_cast<uint32_t>(i));
  EXPECT_EQ(word("token20000"), 0u);
  EXPECT_EQ(word("token"), 0u);
  EXPECT_EQ(word(""), 0u);
}

TEST_F(VocabularyTest, LooksUpTheLowerCaseSpelling) {
  ASSERT_EQ(built("<unk>\nhttp\nServer"), "");
  EXPECT_EQ(word("HTTP"), 1u);
  EXPECT_EQ(word("Server"), 0u);  // no word is spelled with a capital
  EXPECT_EQ(vocabulary_.id({"Server", 6, false}), 2u);
}

TEST_F(VocabularyTest, HoldsTheUnknownTokenAlone) {
  ASSERT_EQ(built("<unk>"), "");
  EXPECT_EQ(vocabulary_.size(), 1u);
  EXPECT_EQ(word("main"), 0u);
}

TEST_F(VocabularyTest, RefusesBadTexts) {
  EXPECT_EQ(built("<unk>\na\nb\na"), "vocabulary: lines 1 and 3 are equal");
  EXPECT_EQ(built("<unk>\n<unk>"), "vocabulary: lines 0 and 1 are equal");
  EXPECT_EQ(built("a\n<unk>"), "vocabulary: line 0 is not <unk>");
  EXPECT_EQ(built("<unk>\na\n"), "vocabulary: line 2 is empty");
  EXPECT_EQ(built(""), "vocabulary: line 0 is empty");
  EXPECT_EQ(built(std::string(kMaxVocabulary, '\n')),
            "vocabulary: 1048577 tokens, the limit is 1048576");
}

// Tokens that all want slot 0 of 2,048, found with the hash of vocabulary.cc.
TEST_F(VocabularyTest, RefusesTokensMadeToCollide) {
  const auto slot_of = [](const std::string& text) {
    uint64_t h = 0xCBF29CE484222325ull;
    for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
    h ^= h >> 32;
    return static_cast<uint32_t>(h * 0xFF51AFD7ED558CCDull >> 32) % 2048;
  };
  std::string text = "<unk>";
  int count = 1;
  for (int i = 0; count < 600; ++i) {
    const std::string token = std::to_string(i);
    if (slot_of(token) != 0) continue;
    text += "\n" + token;
    ++count;
  }
  EXPECT_EQ(built(text), "vocabulary: too many tokens collide");
}

}  // namespace
}  // namespace llamalloc
