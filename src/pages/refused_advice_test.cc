// SPDX-License-Identifier: Apache-2.0
// Pages are broken, mended and given back while the system refuses a part of that, with every error
// that it can give. Nothing is lost, and what is said of it is true.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "os/fake/answered_calls.h"
#include "pages/page_heap.h"

namespace llamalloc {
namespace {

constexpr Blocks kHalf{kBlocksPerHugePage / 2};
constexpr Blocks kKept{2};
constexpr Blocks kMost{kBlocksPerHugePage - kKept.n};

class Trial {
 public:
  Trial(int refused, int error) : refused_(refused), error_(error) { pages_.count_splits(false); }

  // In a process of its own.
  void run() {
    alarm(30);
    const PageHeap::Place kept = take(kKept), most = take(kMost);
    give(most, kMost);
    CHECK(refuse_advice(refused_, error_));
    const HugePage* page = kept.page;
    break_it(page);
    const PageHeap::Place half = pages_.take(PageGroup::session, kHalf, 1);
    CHECK(half.page == page && holds(half, kHalf, page->broken ? 0 : 7));
    fill(half, kHalf);
    if (page->broken) mend_it(page);
    CHECK(holds(kept, kKept, 7) && holds(half, kHalf, 7) && pages_.is_consistent());
    give(kept, kKept);
    give(half, kHalf);
    CHECK_EQ(pages_.release(Nanos::max(), 0), size_t{refused_ != MADV_DONTNEED});
    CHECK_EQ(backed() == 0, refused_ != MADV_DONTNEED);
    CHECK(pages_.is_consistent());
    const PageHeap::Place again = take(kMost);
    CHECK(again.page == page && holds(again, kMost, 7) && pages_.is_consistent());
    _exit(0);
  }

 private:
  void break_it(const HugePage* page) {
    const bool breaks = refused_ != MADV_DONTNEED && (refused_ != kCold || error_ == EINVAL);
    const Breaking done = pages_.break_pages({.before = Nanos::max()});
    CHECK_EQ(done.pages, size_t{breaks});
    CHECK_EQ(done.refused, size_t{!breaks});
    CHECK_EQ(done.given_back, breaks ? kMost.bytes() : 0);
    CHECK_EQ(page->broken, breaks);
    CHECK_EQ(backed(), breaks ? kKept.bytes() : kHugePageSize);
    CHECK(pages_.is_consistent());
  }
  // Where the request itself is not refused, the system decides.
  void mend_it(const HugePage* page) {
    const Breaking done = pages_.break_pages({.before = Nanos{}});
    CHECK_EQ(done.mended + done.unmended, 1u);
    if (refused_ == kCollapse) {
      CHECK_EQ(done.unmended, 1u);
      CHECK_EQ(page->broken, error_ != EINVAL);
    }
    CHECK_EQ(backed(), page->broken ? kKept.bytes() + kHalf.bytes() : kHugePageSize);
    CHECK_EQ(pages_.broken(), size_t{page->broken});
    CHECK(pages_.is_consistent());
  }

  PageHeap::Place take(Blocks blocks) {
    const PageHeap::Place place = pages_.take(PageGroup::session, blocks, 1);
    CHECK(place.page != nullptr);
    fill(place, blocks);
    return place;
  }
  void give(const PageHeap::Place& place, Blocks blocks) {
    pages_.give(place.page, place.start(), blocks);
  }
  static void fill(const PageHeap::Place& place, Blocks blocks) {
    memset(place.start(), 7, blocks.bytes());
  }
  static bool holds(const PageHeap::Place& place, Blocks blocks, char mark) {
    for (size_t i = 0; i < blocks.bytes(); ++i)
      if (place.start()[i] != mark) return false;
    return true;
  }
  size_t backed() const { return pages_.demand().level().backed; }

  const int refused_, error_;
  MetadataArena arena_{system_pages};
  NoPageTables tables_;
  std::unique_ptr<PageSets> sets_ = std::make_unique<PageSets>();
  PageHeap pages_{system_pages, arena_, tables_, *sets_};
};

TEST(RefusedAdvice, LosesNothingAndIsCounted) {
  const int advice[] = {kCold, MADV_FREE, MADV_DONTNEED, kCollapse, MADV_HUGEPAGE, MADV_NOHUGEPAGE};
  for (const int refused : advice)
    for (const int error : {EINVAL, ENOMEM, EAGAIN, EBUSY, EPERM, EIO, ENOSYS})
      EXPECT_EXIT(Trial(refused, error).run(), testing::ExitedWithCode(0), "")
          << "madvise " << refused << ": " << strerror(error);
}

}  // namespace
}  // namespace llamalloc
