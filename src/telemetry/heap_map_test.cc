// SPDX-License-Identifier: Apache-2.0
#include "telemetry/heap_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "os/fake/fake_pages.h"
#include "telemetry/page_look.h"
#include "telemetry/test_telemetry.h"

namespace llamalloc {
namespace {

std::string all(auto document) {
  return all_of(std::move(document), Text::kRoom - 16);
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

class HeapMapTest : public TelemetryOn<FakePages> {
 protected:
  // Objects of the slot size of `size`, a sample of each of the first `samples` at a call site. As
  // in the engine, samples have the slots of samples.
  void allocate(PageGroup group, size_t size, size_t objects, size_t samples, uintptr_t site) {
    for (size_t i = 0; i < objects; ++i) {
      const bool sampled = i < samples;
      const int own = size_class_of(size);
      void* p = heap_.take_one(bin_of(group, sampled ? class_of_sample(own) : own, sampled));
      ASSERT_NE(p, nullptr);
      if (sampled) sample(p, size, site);
    }
  }
  void sample(void* p, size_t size, uintptr_t site) {
    StackTrace trace;
    trace.depth = 1;
    trace.frames[0] = site;
    profiler_->on_alloc(p, size, trace, 0, LifetimeClass::never, system_.time, 1, 1);
  }
  uint64_t first_page() {
    uint64_t number = 0;
    heap_.pages().for_each_page([&](const HugePage& page) {
      if (number == 0 || page.number() < number) number = page.number();
    });
    return number;
  }

  std::unique_ptr<PageLook> look_ = std::make_unique<PageLook>();
};

TEST_F(HeapMapTest, AnEmptyHeapHasNoCell) {
  ProcessSnapshot* snapshot = telemetry_.take({});
  EXPECT_TRUE(all(HeapMapJson(*snapshot)).ends_with("\"pages\": []}\n"));
  EXPECT_EQ(all(HeapMapJson()), "");
  telemetry_.give(snapshot);
}

TEST_F(HeapMapTest, EachPageIsACell) {
  system_.time = Nanos::seconds(5);
  for (int i = 0; i < 700; ++i) {
    heap_.allocate(kRunMax, 1, PageGroup::brief, false);
    heap_.allocate(kRunMax, 1, PageGroup::brief, false);
  }
  system_.time = Nanos::seconds(8);
  ProcessSnapshot* snapshot = telemetry_.take({.command = "a \"b\""});
  const std::string text = all(HeapMapJson(*snapshot));
  EXPECT_NE(text.find("\"command\": \"a \\\"b\\\"\""), std::string::npos) << text.substr(0, 500);
  const std::string row = "[" + std::to_string(first_page()) + ", 2, 0, 256, 2097152, 3.0, 3.0]";
  EXPECT_EQ(count(text, row), 1) << row << text.substr(0, 500);
  EXPECT_EQ(count(text, ", 256, 2097152, 3.0, 3.0]"), 700);
  telemetry_.give(snapshot);
}

TEST_F(HeapMapTest, APageIsSeenClosely) {
  profiler_->start(1, system_.time);
  allocate(PageGroup::brief, 1024, 300, 30, 0x1000);
  allocate(PageGroup::brief, 64, 100, 10, 0x2000);
  sample(heap_.allocate(kRunMax, 1, PageGroup::permanent, true)->base, kRunMax, 0x3000);
  ASSERT_TRUE(look_->copy_page(heap_, first_page()));
  ASSERT_TRUE(look_->find_sites(heap_, *profiler_, system_));
  EXPECT_TRUE(look_->is_consistent());
  size_t objects = 0, bytes = 0;
  for (uint32_t i = 0; i < look_->span_count; ++i) {
    objects += look_->spans[i].objects;
    bytes += size_t{look_->spans[i].objects} * look_->spans[i].size;
  }
  EXPECT_GE(objects, 400u);
  EXPECT_EQ(bytes, look_->allocated);
  EXPECT_EQ(look_->memory, kHugePageSize);
}

// The objects of one size come three times as often from one site as from the other.
TEST_F(HeapMapTest, SitesShareThePageAsTheyShareTheSamples) {
  profiler_->start(1, system_.time);
  allocate(PageGroup::brief, 1024, 330, 30, 0x1000);
  allocate(PageGroup::brief, 1024, 10, 10, 0x2000);
  allocate(PageGroup::session, 1024, 50, 50, 0x3000);  // of another group
  ASSERT_TRUE(look_->copy_page(heap_, first_page()));
  ASSERT_TRUE(look_->find_sites(heap_, *profiler_, system_));
  ASSERT_EQ(look_->site_count, 2u);
  const auto bytes_of = [&](uint32_t stack) {
    for (uint32_t i = 0; i < look_->site_count; ++i)
      if (look_->sites[i].stack == stack) return look_->sites[i].bytes;
    return 0.0;
  };
  EXPECT_NEAR(bytes_of(0) / bytes_of(1), 3, 0.01);
  EXPECT_GE(look_->sites[0].bytes, look_->sites[1].bytes);
  EXPECT_TRUE(look_->is_consistent());
}

TEST_F(HeapMapTest, SmallObjectsHaveTheSitesOfTheirSamples) {
  profiler_->start(1, system_.time);
  allocate(PageGroup::brief, 3000, 10, 10, 0x1000);  // of another kind
  allocate(PageGroup::brief, 240, 6500, 1000, 0x2000);
  ASSERT_TRUE(look_->copy_page(heap_, first_page()));
  ASSERT_TRUE(look_->find_sites(heap_, *profiler_, system_));
  EXPECT_GT(look_->allocated, kHugePageSize / 4 * 3);
  EXPECT_NEAR(look_->known, static_cast<double>(look_->allocated), 1);
  EXPECT_EQ(look_->samples, 1010u) << "each counts once";
  ASSERT_GE(look_->site_count, 1u);
  EXPECT_EQ(look_->sites[0].stack, 1u);
  EXPECT_NEAR(look_->sites[0].bytes, look_->known, 64 << 10);
  EXPECT_EQ(look_->sites[0].here, 1000u);
  EXPECT_TRUE(look_->is_consistent());
}

TEST_F(HeapMapTest, ObjectsOfNoSizeHaveASite) {
  profiler_->start(1, system_.time);
  allocate(PageGroup::brief, 0, 100, 10, 0x1000);
  ASSERT_TRUE(look_->copy_page(heap_, first_page()));
  ASSERT_TRUE(look_->find_sites(heap_, *profiler_, system_));
  EXPECT_TRUE(look_->is_consistent());
  EXPECT_NEAR(look_->known, static_cast<double>(look_->allocated), 1);
  const std::string text = all(PageLookJson(*look_));
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
}

TEST_F(HeapMapTest, ALotOfSitesIsCutToTheLargest) {
  profiler_->start(1, system_.time);
  for (uintptr_t site = 1; site <= 5000; ++site) allocate(PageGroup::brief, 16, 1, 1, site * 16);
  allocate(PageGroup::brief, 16, 200, 200, 5000 * 16);  // the last one is the largest
  ASSERT_TRUE(look_->copy_page(heap_, first_page()));
  ASSERT_TRUE(look_->find_sites(heap_, *profiler_, system_));
  EXPECT_EQ(look_->site_count, PageLook::kMostSites);
  EXPECT_GT(look_->sites[0].bytes, 100 * look_->sites[1].bytes);
  EXPECT_TRUE(look_->is_consistent());
  const std::string text = all(PageLookJson(*look_));
  EXPECT_EQ(count(text, "\"oldest\""), static_cast<int>(PageLook::kMostSites)) << text;
  EXPECT_TRUE(text.ends_with("]}\n"));
}

TEST_F(HeapMapTest, APageThatIsNotInUseIsNotFound) {
  EXPECT_FALSE(look_->copy_page(heap_, 1));
  allocate(PageGroup::brief, 64, 1, 0, 0);
  EXPECT_FALSE(look_->copy_page(heap_, first_page() + 1));
  ASSERT_TRUE(look_->copy_page(heap_, first_page()));
  ASSERT_TRUE(look_->find_sites(heap_, *profiler_, system_));
  EXPECT_EQ(look_->samples, 0u);
  EXPECT_TRUE(all(PageLookJson(*look_)).ends_with("\"sites\": []}\n"));
}

// tests/browser opens it.
TEST(HeapMapPage, IsCompressedAndSmall) {
  ASSERT_GT(kHeapMapPageBytes, 1000u);
  EXPECT_LT(kHeapMapPageBytes, 8192u);
  EXPECT_EQ(kHeapMapPage[0], 0x1f);
  EXPECT_EQ(kHeapMapPage[1], 0x8b);
}

}  // namespace
}  // namespace llamalloc
