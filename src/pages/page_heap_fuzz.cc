// SPDX-License-Identifier: Apache-2.0
// PageHeap against a list of what is out, with a clock that is set and system calls that fail on
// order: no block is out twice, contents are kept, what is called fresh reads as zero, a walk
// counts what is out; at the end, all given back, no page is in use.
//   each step: one byte for what, then what that takes
#include "pages/page_heap.h"

#include <vector>

#include "base/fuzz_input.h"
#include "os/fake/fuzz_pages.h"

namespace llamalloc {
namespace {

constexpr size_t kMostHeld = 300;

struct Held {
  HugePage* page;
  char* start;
  Blocks blocks;
  char mark;
};

class Run {
 public:
  Run(FuzzInput input, FuzzPages& system)
      : input_(input), system_(system), arena_(system), pages_(system, arena_, tables_, sets_) {}

  void run() {
    pages_.use_huge_pages(input_.flag());
    pages_.share_pages_below(input_.byte() % 32);
    while (input_.more()) {
      step();
      CHECK(pages_.is_consistent());
    }
    check_walk();
    system_.calls_left = INT64_MAX;
    while (!held_.empty()) give(held_.size() - 1);
    CHECK_EQ(pages_.in_use(), size_t{0});
    CHECK(pages_.is_consistent());
  }

 private:
  void step() {
    const uint8_t what = input_.byte();
    if (what < 100) return take(what < 90);
    if (what < 160) return give_any();
    if (what < 185) return extend();
    if (what < 200) return give_end();
    if (what < 240) return manage(what % 7);
    if (what < 245) return check_walk();
    system_.calls_left = what < 252 ? INT64_MAX : input_.byte() % 8;
    system_.refuse_unmap = what == 253;
  }

  void take(bool may_open) {
    const auto group = static_cast<PageGroup>(input_.below(kPageGroups));
    const Blocks blocks{2 + input_.below(kBlocksPerHugePage - 1)};
    const uint32_t alignment = 1u << input_.below(8);
    const Grain grain = input_.flag() ? Grain::coarse : Grain::fine;
    if (held_.size() == kMostHeld) return;
    const PageHeap::Place place = may_open ? pages_.take(group, blocks, alignment, grain)
                                           : pages_.take_in_use(group, blocks, alignment, grain);
    if (place.page == nullptr) return;
    CHECK_EQ(place.first % alignment, 0u);
    CHECK(place.page->group == group || place.page->group > group ||
          place.page->group == PageGroup::unknown);
    const Held held{place.page, place.start(), blocks, ++mark_};
    for (const Held& other : held_)
      CHECK(held.start + blocks.bytes() <= other.start ||
            other.start + other.blocks.bytes() <= held.start);
    for (size_t at = 0; place.fresh && at < blocks.bytes(); at += kSmallPage)
      CHECK_EQ(held.start[at], 0);
    write(held);
    held_.push_back(held);
  }
  static void write(const Held& held) {
    held.start[0] = held.start[held.blocks.bytes() - 1] = held.mark;
  }
  static void verify(const Held& held) {
    CHECK_EQ(held.start[0], held.mark);
    CHECK_EQ(held.start[held.blocks.bytes() - 1], held.mark);
  }

  size_t pick() { return input_.below(static_cast<uint32_t>(held_.size())); }
  void give_any() {
    if (!held_.empty()) give(pick());
  }
  void give(size_t i) {
    const Held held = held_[i];
    held_[i] = held_.back();
    held_.pop_back();
    verify(held);
    pages_.give(held.page, held.start, held.blocks);
  }
  void give_end() {
    if (held_.empty()) return;
    Held& held = held_[pick()];
    const Blocks left{2 + input_.below(kBlocksPerHugePage)};
    if (left >= held.blocks) return;
    verify(held);
    pages_.give(held.page, held.start + left.bytes(), {held.blocks.n - left.n});
    held.blocks = left;
    write(held);
  }
  void extend() {
    if (held_.empty()) return;
    Held& held = held_[pick()];
    const Blocks want{held.blocks.n + 1 + input_.below(64)};
    if (!pages_.extend(held.page, held.start, held.blocks, want)) return;
    verify(held);
    held.blocks = want;
    write(held);
  }

  void manage(int what) {
    const uint8_t number = input_.byte();
    const Nanos before = system_.time - Nanos::millis(number);
    if (what == 0) system_.time = system_.time + Nanos::millis(number * 20);
    if (what == 1 && number % 8 != 0) pages_.promote_expired(system_.time);
    if (what == 1 && number % 8 == 0) pages_.join_groups([](const HugePage&) { return false; });
    if (what == 2) pages_.break_idle(before);
    if (what == 3) pages_.release(before, number % 4, before - Nanos::millis(number));
    if (what == 4) pages_.give_up_space();
    if (what == 5) pages_.collapse_first_pages();
    if (what == 6 && !held_.empty()) pages_.touch(held_[number % held_.size()].page);
  }

  void check_walk() {
    size_t used = 0, expected = 0, pages = 0;
    pages_.for_each_page([&](const HugePage& page) { ++pages, used += page.used_blocks; });
    for (const Held& held : held_) expected += held.blocks.n;
    CHECK_EQ(used, expected);
    CHECK_EQ(pages, pages_.in_use());
  }

  FuzzInput input_;
  FuzzPages& system_;
  MetadataArena arena_;
  NoPageTables tables_;
  PageSets sets_;
  PageHeap pages_;
  std::vector<Held> held_;
  char mark_ = 0;
};

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return llamalloc::fuzz_with_system<llamalloc::Run>(data, size);
}
