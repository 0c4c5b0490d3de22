// SPDX-License-Identifier: Apache-2.0
#include "runtime/hardened.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace llamalloc {
namespace {

class Hardened : public testing::Test {
 protected:
  static void SetUpTestSuite() { start_hardened_mode(); }
  void SetUp() override {
    process.hardened = true;
    process.options.on_misuse = 1;
  }
  void TearDown() override { process.hardened = false; }

  static uint64_t misuses() { return process.counters.get(Stat::bad_frees); }

  // Misuses that ending the object reports.
  static uint64_t end(void* p, size_t given = kUnknownSize) {
    const uint64_t before = misuses();
    const Span* span = process.heap.find(p);
    if (end_hardened(p, span, given)) hold_back(p, span);
    return misuses() - before;
  }
};

TEST_F(Hardened, KeepsTheExactSizeAndTheAlignment) {
  for (size_t size : {0, 1, 15, 16, 17, 100, 4096, 32768, 262'144, 262'143, 2'000'000})
    for (size_t alignment = 1; alignment <= 8192; alignment *= 4) {
      auto* p = static_cast<char*>(take_hardened(size, alignment, PageGroup::unknown));
      ASSERT_NE(p, nullptr);
      const Span* span = process.heap.find(p);
      ASSERT_TRUE(is_hardened(span));
      EXPECT_EQ(hardened_size(p, span), size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u) << size;
      memset(p, 0xff, size);
      EXPECT_EQ(end(p, size), 0u) << size;
    }
}

TEST_F(Hardened, FindsEachByteBehindTheObject) {
  for (size_t size : {1, 16, 17, 100, 1000})
    for (size_t behind = 0; behind < 24; ++behind) {
      auto* p = static_cast<char*>(take_hardened(size, 1, PageGroup::unknown));
      const Span* span = process.heap.find(p);
      if (size + behind >= span->object_size()) continue;
      p[size + behind] ^= 1;
      EXPECT_EQ(end(p), 1u) << size << " + " << behind;
    }
}

TEST_F(Hardened, FindsASecondEndAndAWrongSize) {
  void* p = take_hardened(100, 1, PageGroup::unknown);
  EXPECT_EQ(end(p, 99), 1u);
  EXPECT_EQ(end(p), 1u);
  void* q = take_hardened(100, 1, PageGroup::unknown);
  EXPECT_EQ(end(q, 100), 0u);
  EXPECT_EQ(end(q, 100), 1u);
}

TEST_F(Hardened, HoldsBackFilledAndFindsWritesMeanwhile) {
  auto* p = static_cast<unsigned char*>(take_hardened(64, 1, PageGroup::unknown));
  EXPECT_EQ(end(p), 0u);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(p[i], 0xdf);
  p[10] = 0;
  const uint64_t before = misuses();
  std::set<void*> seen;
  for (int i = 0; i < 1024; ++i) {
    void* q = take_hardened(64, 1, PageGroup::unknown);
    EXPECT_NE(q, p) << "used again too early";
    end(q);
  }
  EXPECT_EQ(misuses() - before, 1u);
}

}  // namespace
}  // namespace llamalloc
