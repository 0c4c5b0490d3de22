// SPDX-License-Identifier: Apache-2.0
#include "os/code_shape.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "os/test_plugin.h"
#include "os/unwind.h"

namespace llamalloc {
namespace {

#if defined(__x86_64__)

[[gnu::noinline]] uintptr_t here() {
  asm volatile("");
  return reinterpret_cast<uintptr_t>(__builtin_return_address(0));
}
struct Places {
  uintptr_t first, second, third;
};
[[gnu::noinline]] Places call_three_times() {
  const uintptr_t first = here();
  asm volatile("nop; nop");
  const uintptr_t second = here();
  using Function = uintptr_t (*)();
  volatile Function indirect = here;
  return {first, second, indirect()};
}

std::vector<LoadedFunction> all_functions() {
  std::vector<LoadedFunction> all;
  visit_functions(
      [](void* to, const LoadedFunction& function) {
        static_cast<std::vector<LoadedFunction>*>(to)->push_back(function);
      },
      &all);
  return all;
}

TEST(CodeShape, IsThatOfTheFunctionAroundTheAddress) {
  const Places places = call_three_times();
  CodeShape first, second;
  ASSERT_TRUE(shape_of_code(places.first, &first));
  ASSERT_TRUE(shape_of_code(places.second, &second));
  EXPECT_EQ(first.function, second.function);
  EXPECT_EQ(first.code, code_of(places.first));
  EXPECT_EQ(first.build, static_cast<uint32_t>(build_of_code(places.first)));
  EXPECT_EQ(places.first - first.offset, unwind_function_start(places.first - 1));
  EXPECT_EQ(second.offset - first.offset, places.second - places.first);
  EXPECT_NE(first.function.before, 0u);
  EXPECT_NE(first.function.after, 0u);
}

TEST(CodeShape, VisitsEachFunctionWithTheShapeThatItsCodeHas) {
  const Places places = call_three_times();
  CodeShape shape;
  ASSERT_TRUE(shape_of_code(places.first, &shape));
  const uintptr_t begin = places.first - shape.offset;
  size_t found = 0;
  const std::vector<LoadedFunction> all = all_functions();
  for (const LoadedFunction& function : all) {
    EXPECT_NE(function.shape.self, 0u);
    if (function.address != begin) continue;
    ++found;
    EXPECT_EQ(function.shape, shape.function);
    EXPECT_EQ(function.build, build_of_code(begin));
  }
  EXPECT_EQ(found, 1u);
  EXPECT_GT(all.size(), 1000u) << "of this program and of its libraries";
}

TEST(CodeShape, FindsACallByItsCallee) {
  const Places places = call_three_times();
  CodeShape first, second, indirect;
  ASSERT_TRUE(shape_of_code(places.first, &first));
  ASSERT_TRUE(shape_of_code(places.second, &second));
  ASSERT_TRUE(shape_of_code(places.third, &indirect));
  EXPECT_NE(first.call.callee, 0u);
  EXPECT_EQ(first.call.callee, second.call.callee);
  EXPECT_EQ(first.call.count, 2);
  EXPECT_EQ(first.call.ordinal, 0);
  EXPECT_EQ(second.call.ordinal, 1);
  EXPECT_EQ(indirect.call.count, 0);
  const uintptr_t function = places.first - first.offset;
  uint32_t offsets[CallShape::kMostPlaces];
  ASSERT_EQ(find_call(function, first.call, offsets), 1u);
  EXPECT_EQ(offsets[0], first.offset);
  ASSERT_EQ(find_call(function, second.call, offsets), 1u);
  EXPECT_EQ(offsets[0], second.offset);
  ASSERT_EQ(find_call(function, {first.call.callee, 0, 1}, offsets), 2u) << "it was doubled";
  EXPECT_EQ(offsets[0], first.offset);
  EXPECT_EQ(offsets[1], second.offset);
  EXPECT_EQ(find_call(function, {first.call.callee, 0, 3}, offsets), 0u);
  EXPECT_EQ(find_call(function, {first.call.callee + 1, 0, 1}, offsets), 0u);
  EXPECT_EQ(find_call(function, indirect.call, offsets), 0u);
}

TEST(CodeShape, WhatIsNoCodeHasNone) {
  CodeShape shape;
  uint32_t offsets[CallShape::kMostPlaces];
  alignas(16) static const char data[64] = {};
  for (const uintptr_t address :
       {uintptr_t{1}, uintptr_t{4096}, ~uintptr_t{0}, reinterpret_cast<uintptr_t>(data)}) {
    EXPECT_FALSE(shape_of_code(address, &shape)) << address;
    EXPECT_EQ(find_call(address, {1, 0, 1}, offsets), 0u) << address;
  }
}

TEST(CodeShape, TheLoadedBuildsAreTheSameInEachLook) {
  EXPECT_NE(loaded_builds(), 0u);
  EXPECT_EQ(loaded_builds(), loaded_builds());
}

// Runs of alike functions are remembered between two questions.
TEST(CodeShape, OfManyAlikeFunctionsIsTheSameInEachWay) {
  const PluginFolder folder;
  std::string code("int g0(int x) { return x * 7 + 1; }\n");
  for (int i = 1; i <= 40; ++i)
    ((code += "int g") += std::to_string(i)) += "(int x, int y) { return x / (y + 1); }\n";
  code += "long g41(long x) { for (int i = 0; i < 9; ++i) x ^= x << i; return x; }\n";
  const LoadedPlugin plugin(folder.compile("alike", code));
  const std::vector<LoadedFunction> all = all_functions();
  for (int i = 0; i < 3 * 42; ++i) {
    const uintptr_t address = plugin.address(("g" + std::to_string(i % 42)).c_str());
    CodeShape shape;
    ASSERT_TRUE(shape_of_code(address + 5, &shape));
    size_t found = 0;
    for (const LoadedFunction& function : all) {
      if (function.address != address) continue;
      ++found;
      EXPECT_EQ(function.shape, shape.function) << i;
    }
    EXPECT_EQ(found, 1u);
  }
}

#endif

// To read what is not there any more would end the process.
TEST(CodeShape, ALoadedFileCutShortHasNone) {
  const PluginFolder folder;
  std::string code;
  for (int i = 0; i < 2000; ++i)
    ((code += "int f") += std::to_string(i)) += "(int x, int y) { return x / (y + 1); }\n";
  for (const off_t left : {0, 4096, 65536}) {
    const std::string path = folder.compile("cut" + std::to_string(left), code);
    const auto body = [&] {
      const LoadedPlugin cut(path);
      const size_t before = all_functions().size();
      const uintptr_t place = cut.address("f1000") + 5;
      CodeShape shape;
      if (!shape_of_code(place, &shape)) _exit(1);
      if (truncate(path.c_str(), left) != 0) _exit(2);
      if (shape_of_code(place, &shape)) _exit(3);
      _exit(all_functions().size() <= before - 2000 ? 0 : 4);
    };
    EXPECT_EXIT(body(), testing::ExitedWithCode(0), "") << left;
  }
}

}  // namespace
}  // namespace llamalloc
