// SPDX-License-Identifier: Apache-2.0
// PagePool over a system whose calls fail on order: no page is out twice, each is aligned and lies
// in covered space, one that went back reads as zero, counts are those of the naive list. Tables
// are discarded only for pages that nobody has.
//   two bytes a step: what, and a number
#include "pages/page_pool.h"

#include <algorithm>
#include <vector>

#include "base/fuzz_input.h"
#include "os/fake/fuzz_pages.h"

namespace llamalloc {
namespace {

// Tables of which a piece describes two pages. Fails on order, as the system does.
class Tables final : public PageTables {
 public:
  Tables(FuzzPages& system, const std::vector<HugePage*>& held) : system_(system), held_(held) {}

  bool cover(const char* start, size_t bytes) override {
    if (system_.calls_left == 1) return false;
    covered_.emplace_back(start, start + bytes);
    return true;
  }
  bool share_memory(const char* page, const char* other) const override {
    return pair_of(page) == pair_of(other);
  }
  void discard(const char* page) override {
    for (const HugePage* held : held_) CHECK(!share_memory(held->base, page));
  }
  bool covers(const char* page) const {
    return std::any_of(covered_.begin(), covered_.end(), [page](const auto& space) {
      return page >= space.first && page + kHugePageSize <= space.second;
    });
  }

 private:
  static uintptr_t pair_of(const char* page) {
    return reinterpret_cast<uintptr_t>(page) >> (kHugePageShift + 1);
  }
  FuzzPages& system_;
  const std::vector<HugePage*>& held_;
  std::vector<std::pair<const char*, const char*>> covered_;
};

class Run {
 public:
  Run(FuzzInput input, FuzzPages& system)
      : input_(input),
        system_(system),
        arena_(system),
        tables_(system, held_),
        pool_(system, arena_, tables_) {}

  void run() {
    pool_.use_huge_pages(input_.flag());
    pool_.uncommit_empty(input_.flag());
    while (input_.more()) {
      step();
      CHECK(pool_.is_consistent());
      CHECK_EQ(pool_.in_use(), held_.size());
      const PoolCounts counts = pool_.counts();
      CHECK_LE(counts.committed_bytes, counts.reserved_bytes);
      CHECK(pool_.has_empty() == (counts.empty_backed != 0));
      CHECK_EQ(counts.acquired - counts.released, held_.size() + counts.empty_backed);
    }
  }

 private:
  void step() {
    const uint8_t what = input_.byte() % 16;
    const uint8_t number = input_.byte();
    if (what < 6) return acquire(number);
    if (what < 11) return put_empty(number);
    if (what == 11) system_.time = system_.time + Nanos::millis(number * 10);
    if (what == 12) release(number);
    if (what == 13) pool_.give_up_space();
    if (what == 14 && number < 128) pool_.collapse_first_pages();
    if (what == 14 && number >= 128) fetch_one(number & 15);
    if (what == 15) {
      system_.calls_left = number < 128 ? INT64_MAX : number & 15;
      system_.refuse_unmap = number % 16 == 5;
    }
  }

  void acquire(uint8_t number) {
    HugePage* page = pool_.acquire();
    if (page == nullptr) return;
    CHECK_EQ(reinterpret_cast<uintptr_t>(page->base) % kHugePageSize, uintptr_t{0});
    for (const HugePage* other : held_) CHECK(other != page && other->base != page->base);
    CHECK_EQ(page->used_blocks, 0);
    CHECK(tables_.covers(page->base));
    const bool clean = page->dirty.count() == 0;
    for (size_t at = 0; at < kHugePageSize; at += kHugePageSize / 8)
      CHECK(!clean || page->base[at] == 0);
    page->base[number % 8 * (kHugePageSize / 8)] = static_cast<char>(number);
    page->dirty.set(0, kBlocksPerHugePage);
    held_.push_back(page);
  }

  void put_empty(uint8_t number) {
    if (held_.empty()) return;
    std::swap(held_[number % held_.size()], held_.back());
    pool_.put_empty(held_.back(), system_.time);
    held_.pop_back();
  }

  void release(uint8_t number) {
    const size_t before = pool_.counts().empty_backed, retain = number % 4;
    const Nanos age = Nanos::millis(number >> 2);
    const size_t released = pool_.release(system_.time - age, retain);
    CHECK_LE(released, before > retain ? before - retain : 0);
    CHECK_EQ(pool_.counts().empty_backed, before - released);
    pool_.release_tables(system_.time - Nanos{4 * age.n});
  }

  void fetch_one(uint8_t number) {
    const size_t before = pool_.counts().empty_backed;
    Nanos price;
    const bool fetched = pool_.fetch_one(system_.time - Nanos::millis(number), &price);
    CHECK_EQ(pool_.counts().empty_backed, before + fetched);
  }

  FuzzInput input_;
  FuzzPages& system_;
  MetadataArena arena_;
  std::vector<HugePage*> held_;
  Tables tables_;
  PagePool pool_;
};

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return llamalloc::fuzz_with_system<llamalloc::Run>(data, size);
}
