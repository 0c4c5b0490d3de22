// SPDX-License-Identifier: Apache-2.0
#include "sim/survey.h"

#include <gtest/gtest.h>

#include "sim/synthetic_load.h"

namespace llamalloc::sim {
namespace {

using trace::Event;
using trace::EventKind;

constexpr uint64_t kSecond = 1'000'000'000;

Event make(uint64_t time, uint64_t object, uint64_t size, uint32_t stack = 0) {
  return {time, object, size, stack, 0, EventKind::allocate, 4};
}
Event end(uint64_t time, uint64_t object) {
  return {time, object, 0, 0, 0, EventKind::free, 0};
}
Event change(uint64_t time, uint64_t object, uint64_t size, uint32_t stack) {
  return {time, object, size, stack, 0, EventKind::resize, 4};
}

std::string error_of(std::vector<Event> events) {
  Survey survey;
  std::string error;
  const auto input = make_input(std::move(events));
  return survey_trace(*input, &survey, &error) ? "" : error;
}

TEST(SurveyTest, APlacementLivesUntilTheObjectIsFreedOrChangesItsBucket) {
  const auto input = make_input({make(0, 0, 100, 1), make(10, 1, 50, 2), change(20, 0, 105, 3),
                                 change(30, 0, 300, 3), end(100, 0)});
  Survey survey;
  std::string error;
  ASSERT_TRUE(survey_trace(*input, &survey, &error)) << error;
  EXPECT_EQ(survey.lifetimes, (std::vector<uint64_t>{30, kNeverFreed, 70}));
  EXPECT_EQ(survey.births, (std::vector<uint64_t>{10}));
  EXPECT_EQ(survey.objects, 2u);
  EXPECT_EQ(survey.peak_live, 350u);
  EXPECT_EQ(survey.peak_time, 30u);
  ASSERT_EQ(survey.context_table.size(), 3u);
  EXPECT_EQ(survey.context_table[survey.contexts[2]].stack, 3u);
  EXPECT_EQ(survey.context_table[survey.contexts[2]].size, 320u);
}

TEST(SurveyTest, DamagedTracesAreNamedByTheEventThatIsWrong) {
  EXPECT_NE(error_of({}).find("no events"), std::string::npos);
  EXPECT_NE(error_of({make(5, 0, 1), make(4, 1, 1)}).find("event 2"), std::string::npos);
  EXPECT_NE(error_of({make(0, 1, 1)}).find("next number"), std::string::npos);
  EXPECT_NE(error_of({end(0, 0)}).find("not alive"), std::string::npos);
  EXPECT_NE(error_of({make(0, 0, 1), end(1, 0), end(2, 0)}).find("event 3"), std::string::npos);
  EXPECT_NE(error_of({make(0, 0, 1), change(1, 7, 5, 0)}).find("not alive"), std::string::npos);
  EXPECT_NE(error_of({make(0, 0, ~0ull)}).find("size"), std::string::npos);
  EXPECT_NE(error_of({make(0, 0, 1, ~0u)}).find("stack"), std::string::npos);
  Event odd = make(0, 0, 1);
  odd.alignment_log2 = 60;
  EXPECT_NE(error_of({odd}).find("alignment"), std::string::npos);
  odd = make(0, 0, 1);
  odd.thread = ~0u;
  EXPECT_NE(error_of({odd}).find("thread"), std::string::npos);
  odd = make(1, 0, 1);
  odd.kind = static_cast<EventKind>(9);
  EXPECT_NE(error_of({make(0, 0, 1), odd}).find("kind"), std::string::npos);
}

TEST(SurveyTest, ADropIsMeasuredOnceAndSomeSecondsLater) {
  std::vector<Event> events;
  for (uint64_t i = 0; i < 100; ++i) events.push_back(make(i, i, 1000));
  for (uint64_t i = 0; i < 80; ++i) events.push_back(end(10 * kSecond + i, i));
  events.push_back(make(40 * kSecond, 100, 10));
  const auto input = make_input(std::move(events));
  Survey survey;
  std::string error;
  ASSERT_TRUE(survey_trace(*input, &survey, &error)) << error;
  ASSERT_EQ(survey.drops.size(), 1u);
  EXPECT_EQ(survey.drops[0].peak_live, 100'000u);
  EXPECT_GT(survey.drops[0].time, 12 * kSecond);
  EXPECT_LT(survey.drops[0].time, 17 * kSecond);
}

TEST(SurveyTest, ADipThatRecoversAtOnceIsNoDrop) {
  std::vector<Event> events;
  uint64_t object = 0;
  for (; object < 100; ++object) events.push_back(make(object, object, 1000));
  for (uint64_t i = 0; i < 50; ++i) events.push_back(end(10 * kSecond + i, i));
  for (uint64_t i = 0; i < 50; ++i) events.push_back(make(11 * kSecond + i, object++, 1000));
  events.push_back(make(40 * kSecond, object, 10));
  const auto input = make_input(std::move(events));
  Survey survey;
  std::string error;
  ASSERT_TRUE(survey_trace(*input, &survey, &error)) << error;
  EXPECT_TRUE(survey.drops.empty());
}

TEST(SurveyTest, ContextsThatTakeTurnsKeepTheirNumbers) {
  ContextIndex index;
  std::vector<Context> table;
  for (int round = 0; round < 3; ++round)
    for (uint32_t stack = 0; stack < 200; ++stack)
      for (uint64_t bucket : {16, 32, 1024})
        EXPECT_EQ(index.find(stack, bucket, table), stack * 3 + (bucket == 16   ? 0u
                                                                 : bucket == 32 ? 1u
                                                                                : 2u));
  EXPECT_EQ(table.size(), 600u);
}

}  // namespace
}  // namespace llamalloc::sim
