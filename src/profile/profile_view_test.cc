// SPDX-License-Identifier: Apache-2.0
#include "profile/profile_view.h"

#include <gtest/gtest.h>

#include <map>

#include "profile/profile_test_util.h"
#include "profile/profiler.h"

namespace llamalloc {
namespace {

constexpr size_t kPage = kHugePageSize;
constexpr int64_t kMiB = 1 << 20;
using Values = std::vector<int64_t>;

// Objects of 1 MiB are sampled each and stand for one.
class ProfileViewTest : public testing::Test {
 protected:
  ProfileViewTest() { profiler_.start(64, {0}); }
  static const void* at(uintptr_t address) { return reinterpret_cast<const void*>(address); }
  void allocate(uintptr_t address, uintptr_t site, Nanos now) {
    StackTrace trace;
    trace.depth = 1;
    trace.frames[0] = site;
    ASSERT_TRUE(profiler_.on_alloc(at(address), kMiB, trace, 1, LifetimeClass::mixed, now, 1, 1));
  }
  void free(uintptr_t address, Nanos now) {
    ASSERT_TRUE(profiler_.on_free(at(address), now, 1, 1).found);
  }
  // By site.
  std::map<std::string, Values> write(ProfileKind kind, Nanos now,
                                      const ProfileWindow* window = nullptr,
                                      const PinnedPages* pinned = nullptr) {
    test::BufferSink sink;
    const Profiler::WriteInfo info{now, now, false, kind, window, pinned};
    EXPECT_TRUE(profiler_.write(sink, names_, info));
    test::Message profile = test::parse(test::gunzip_stored(sink.text));
    preset_ = profile.bytes[6].at(profile.numbers[14].at(0));
    std::map<std::string, Values> found;
    for (const test::Sample& s : test::read_samples(sink.text)) found[s.stack.at(0)] = s.values;
    return found;
  }

  MetadataArena arena_{system_pages};
  Profiler profiler_{arena_, system_pages};
  test::TableNames names_;
  std::string preset_;
};

TEST_F(ProfileViewTest, HeapShowsWhatIsAlive) {
  names_.add_name(0x10, "a");
  for (uintptr_t i = 1; i <= 3; ++i) allocate(i, 0x10, {5});
  free(2, {7});
  EXPECT_EQ(write(ProfileKind::heap, {9}).at("a"), (Values{3, 3 * kMiB, 2, 2 * kMiB}));
  EXPECT_EQ(preset_, "inuse_space");
  EXPECT_EQ(write(ProfileKind::allocs, {9}).at("a"), (Values{3, 3 * kMiB}));
  EXPECT_EQ(preset_, "alloc_space");
}

TEST_F(ProfileViewTest, AWindowShowsWhatHappenedSince) {
  names_.add_name(0x10, "before");
  names_.add_name(0x20, "both");
  names_.add_name(0x30, "since");
  allocate(1, 0x10, {100});
  allocate(2, 0x20, {100});
  allocate(3, 0x20, {100});
  free(3, {200});
  ProfileWindow window(system_pages);
  ASSERT_TRUE(profiler_.open_window(&window, {1000}));
  free(2, {2000});
  for (uintptr_t i = 4; i <= 6; ++i) allocate(i, 0x20, {3000});
  allocate(7, 0x30, {3000});
  free(4, {3500});
  const auto allocs = write(ProfileKind::allocs, {4000}, &window);
  EXPECT_FALSE(allocs.contains("before"));
  EXPECT_EQ(allocs.at("both"), (Values{3, 3 * kMiB}));
  EXPECT_EQ(allocs.at("since"), (Values{1, kMiB}));
  // Two died since, one of them older than the window; two that were allocated since live.
  const auto lifetimes = write(ProfileKind::lifetimes, {4000}, &window);
  EXPECT_FALSE(lifetimes.contains("before"));
  EXPECT_EQ(lifetimes.at("both"), (Values{4, 4 * kMiB, 2, 2 * kMiB, 2, 2 * kMiB}));
  EXPECT_EQ(lifetimes.at("since"), (Values{1, kMiB, 0, 0, 1, kMiB}));
}

TEST_F(ProfileViewTest, PinnedSharesThePagesAmongTheirObjects) {
  names_.add_name(0x10, "alone");
  names_.add_name(0x20, "full");
  names_.add_name(0x30, "direct");
  allocate(4 * kPage + 64, 0x10, {5});
  allocate(2 * kPage, 0x20, {5});
  allocate(3 * kPage - 64, 0x20, {5});
  allocate(40 * kPage, 0x30, {5});
  allocate(9 * kPage, 0x40, {5});
  free(9 * kPage, {6});
  PinnedPages::Row rows[] = {{4 * kPage, 2}, {2 * kPage, 1}};
  PinnedPages pinned{rows, 2};
  pinned.sort();
  const auto found = write(ProfileKind::pinned, {9}, nullptr, &pinned);
  EXPECT_EQ(preset_, "pinned_space");
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(found.at("alone"), (Values{1, kMiB, 2 * kMiB}));
  EXPECT_EQ(found.at("full"), (Values{2, 2 * kMiB, 2 * kMiB}));
  EXPECT_EQ(found.at("direct"), (Values{1, kMiB, kMiB}));
}

}  // namespace
}  // namespace llamalloc
