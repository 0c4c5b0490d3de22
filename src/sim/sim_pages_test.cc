// SPDX-License-Identifier: Apache-2.0
// Tables in a simulation are as in the library: what they have resident must not depend on the
// system's huge page setting.
#include "sim/sim_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <sstream>
#include <string>

#include "os/arena.h"

namespace llamalloc::sim {
namespace {

bool contains(const std::string& range, uintptr_t address) {
  uintptr_t first = 0, last = 0;
  char dash = 0;
  std::istringstream text(range);
  return text >> std::hex >> first >> dash >> last && dash == '-' && first <= address &&
         address < last;
}

// The flags that the kernel keeps for the mapping of the address (proc(5), VmFlags).
std::string flags_of(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.starts_with("VmFlags:")) {
      if (here) return line + " ";
    } else if (line.find('-') != std::string::npos && line.find(": ") == std::string::npos) {
      here = contains(line, reinterpret_cast<uintptr_t>(address));
    }
  }
  return "";
}

bool kernel_knows_huge_pages() {
  void* page = mmap(nullptr, kSmallPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool known = madvise(page, kSmallPage, MADV_NOHUGEPAGE) == 0;
  munmap(page, kSmallPage);
  return known;
}

TEST(SimPages, tables_are_on_small_pages) {
  if (!kernel_knows_huge_pages()) GTEST_SKIP() << "the kernel has no transparent huge pages";
  SimPages pages;
  ASSERT_TRUE(pages.open());
  MetadataArena arena(pages);
  for (const size_t bytes : {size_t{64}, size_t{8} << 20}) {
    const void* table = arena.allocate(bytes);
    ASSERT_NE(table, nullptr);
    EXPECT_NE(flags_of(table).find(" nh "), std::string::npos) << flags_of(table);
  }
}

TEST(SimPages, newer_chunks_lie_lower_as_linux_maps_them) {
  SimPages pages;
  ASSERT_TRUE(pages.open());
  const auto* first = static_cast<char*>(pages.reserve(kHugePageSize * 32, kHugePageSize));
  const auto* second = static_cast<char*>(pages.reserve(kHugePageSize * 64, kHugePageSize));
  ASSERT_NE(second, nullptr);
  EXPECT_LE(second + kHugePageSize * 64, first);
}

TEST(SimPages, space_above_the_top_comes_last) {
  SimPages pages;
  ASSERT_TRUE(pages.open());
  ASSERT_EQ(pages.offset_of(pages.reserve(kHeapTop, kHugePageSize)), 0u);
  EXPECT_EQ(pages.offset_of(pages.reserve(kHugePageSize, kHugePageSize)), kHeapTop);
  EXPECT_EQ(pages.reserve(kDirectBase, kHugePageSize), nullptr);
}

TEST(SimPages, the_coarse_clock_shows_the_last_tick) {
  SimPages pages;
  pages.tick = Nanos::millis(4);
  pages.a_tick = Nanos::millis(1);
  pages.time = Nanos::millis(12);
  EXPECT_EQ(pages.now_coarse(), Nanos::millis(9));
  EXPECT_EQ(pages.now(), Nanos::millis(12));
}

}  // namespace
}  // namespace llamalloc::sim
