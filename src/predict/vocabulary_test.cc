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

}  // namespace
}  // namespace llamalloc
