// SPDX-License-Identifier: Apache-2.0
#include "engine/hardened.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>

#include "engine/engine.h"
#include "engine/fake_world.h"

namespace llamalloc {
namespace {

// Counts what is reported, and needs nothing else.
class Hardened : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(hardening_.start(arena_, 0x1234567)); }

  // Misuses that ending the object reports.
  int end(void* p, size_t given = kUnknownSize) {
    const int before = world_.misuses;
    const Span* span = heap_.find(p);
    if (hardening_.end(p, span, given)) hardening_.hold_back(p, span);
    return world_.misuses - before;
  }
  void* take(size_t size, size_t alignment = 1) {
    return hardening_.take(size, alignment, PageGroup::unknown);
  }

  FakeWorld world_;
  MetadataArena arena_{system_pages};
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  Heap heap_{system_pages, arena_, *tables_};
  Hardening hardening_{heap_, world_};
};

TEST_F(Hardened, KeepsTheExactSizeAndTheAlignment) {
  for (size_t size : {0, 1, 15, 16, 17, 100, 4096, 32768, 262'144, 262'143, 2'000'000})
    for (size_t alignment = 1; alignment <= 8192; alignment *= 4) {
      auto* p = static_cast<char*>(take(size, alignment));
      ASSERT_NE(p, nullptr);
      const Span* span = heap_.find(p);
      ASSERT_TRUE(hardening_.is_hardened(span));
      EXPECT_EQ(hardening_.size_of(p, span), size);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u) << size;
      memset(p, 0xff, size);
      EXPECT_EQ(end(p, size), 0) << size;
    }
}

TEST_F(Hardened, FindsEachByteBehindTheObject) {
  for (size_t size : {1, 16, 17, 100, 1000})
    for (size_t behind = 0; behind < 24; ++behind) {
      auto* p = static_cast<char*>(take(size));
      const Span* span = heap_.find(p);
      if (size + behind >= span->object_size()) continue;
      p[size + behind] ^= 1;
      EXPECT_EQ(end(p), 1) << size << " + " << behind;
    }
}

TEST_F(Hardened, FindsASecondEndAndAWrongSize) {
  void* p = take(100);
  EXPECT_EQ(end(p, 99), 1);
  EXPECT_EQ(end(p), 1);
  void* q = take(100);
  EXPECT_EQ(end(q, 100), 0);
  EXPECT_EQ(end(q, 100), 1);
}

TEST_F(Hardened, HoldsBackFilledAndFindsWritesMeanwhile) {
  auto* p = static_cast<unsigned char*>(take(64));
  EXPECT_EQ(end(p), 0);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(p[i], 0xdf);
  p[10] = 0;
  const int before = world_.misuses;
  std::set<void*> seen;
  for (int i = 0; i < 1024; ++i) {
    void* q = take(64);
    EXPECT_NE(q, p) << "used again too early";
    end(q);
  }
  EXPECT_EQ(world_.misuses - before, 1);
}

}  // namespace
}  // namespace llamalloc
