// SPDX-License-Identifier: Apache-2.0
// PageSet against arrays of bools: what it gives is free, aligned, the lowest of its page, fresh
// only where no block was used before, and it refuses only what its buckets need not find. A search
// refuses only what has no room.
//   four bytes a step: what, and three numbers
#include "pages/page_set.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/fuzz_input.h"

namespace llamalloc {
namespace {

constexpr uint32_t kPages = 6;

struct Naive {
  bool used[kPages][kBlocksPerHugePage] = {};
  bool dirty[kPages][kBlocksPerHugePage] = {};

  void set(uint32_t page, uint32_t first, uint32_t n, bool value) {
    std::fill_n(used[page] + first, n, value);
    if (value) std::fill_n(dirty[page] + first, n, true);
  }
  bool is_clear(const bool* bits, uint32_t first, uint32_t n) const {
    return first + n <= kBlocksPerHugePage &&
           std::find(bits + first, bits + first + n, true) == bits + first + n;
  }
  uint32_t lowest(uint32_t page, uint32_t n, uint32_t alignment) const {
    for (uint32_t i = 0; i + n <= kBlocksPerHugePage; i += alignment)
      if (is_clear(used[page], i, n)) return i;
    return kBlocksPerHugePage;
  }
  bool empty(uint32_t page) const { return is_clear(used[page], 0, kBlocksPerHugePage); }
};

struct Taken {
  uint32_t page, first, blocks;
};

class Run {
 public:
  explicit Run(FuzzInput input) : input_(input), pages_(std::make_unique<HugePage[]>(kPages)) {
    for (uint32_t i = 0; i < kPages; ++i)
      pages_[i].base = reinterpret_cast<char*>((i + 1) * kHugePageSize);
  }
  void run() {
    while (input_.more()) {
      step();
      CHECK(set_.is_consistent());
    }
  }

 private:
  void step() {
    switch (input_.byte() % 7) {
      case 0:
        return open();
      case 1:
      case 2:
        return take();
      case 3:
        return give_back();
      case 4:
        return extend();
      case 5:
        return change_broken();
      default:
        return move_out_and_in();
    }
  }

  void note(const PageSet::Place& place, uint32_t n, uint32_t alignment) {
    const uint32_t page = static_cast<uint32_t>(place.page - pages_.get());
    CHECK_EQ(place.first, naive_.lowest(page, n, alignment));
    CHECK(place.fresh == naive_.is_clear(naive_.dirty[page], place.first, n));
    naive_.set(page, place.first, n, true);
    taken_.push_back({page, place.first, n});
  }

  void open() {
    const uint32_t page = input_.below(kPages), n = 1 + input_.below(kBlocksPerHugePage);
    if (!naive_.empty(page)) return;
    note(set_.take_first(&pages_[page], Blocks{n}), n, 1);
  }

  void take() {
    const uint32_t n = 1 + input_.below(kBlocksPerHugePage), alignment = 1u << input_.below(8);
    const PageSet::Place place = set_.take(Blocks{n}, alignment);
    // Without alignment, each page of the buckets above that of n fits, and of n's own below 16. A
    // broken page serves only if no other does.
    const uint32_t sure = n < 16 ? n : n + n / 4;
    for (uint32_t page = 0; page < kPages && alignment == 1; ++page)
      CHECK((place.page != nullptr && !(place.page->broken && !pages_[page].broken)) ||
            naive_.empty(page) || naive_.lowest(page, sure, 1) == kBlocksPerHugePage);
    if (place.page != nullptr) return note(place, n, alignment);
    const PageSet::Place found = set_.search(Blocks{n}, alignment);
    CHECK(found.page == lowest_with_room(n, alignment));
    if (found.page != nullptr) note(found, n, alignment);
  }

  // A broken one only if no other has room.
  const HugePage* lowest_with_room(uint32_t n, uint32_t alignment) const {
    for (const bool broken : {false, true})
      for (uint32_t page = 0; page < kPages; ++page)
        if (pages_[page].broken == broken && !naive_.empty(page) &&
            naive_.lowest(page, n, alignment) != kBlocksPerHugePage)
          return &pages_[page];
    return nullptr;
  }

  void change_broken() {
    const uint32_t page = input_.below(kPages);
    if (!naive_.empty(page)) set_.mark_broken(&pages_[page], !pages_[page].broken);
  }

  void give_back() {
    if (taken_.empty()) return;
    std::swap(taken_[input_.below(static_cast<uint32_t>(taken_.size()))], taken_.back());
    const Taken t = taken_.back();
    taken_.pop_back();
    naive_.set(t.page, t.first, t.blocks, false);
    const bool empty = set_.give_back(&pages_[t.page], t.first, Blocks{t.blocks});
    CHECK(empty == naive_.empty(t.page));
    if (empty) pages_[t.page].set = nullptr;
  }

  void extend() {
    if (taken_.empty()) return;
    Taken& t = taken_[input_.below(static_cast<uint32_t>(taken_.size()))];
    const uint32_t more = 1 + input_.below(64);
    const bool fits = naive_.is_clear(naive_.used[t.page], t.first + t.blocks, more);
    uint32_t newly_backed = 0;
    CHECK(set_.extend(&pages_[t.page], t.first, Blocks{t.blocks}, Blocks{t.blocks + more},
                      &newly_backed) == fits);
    if (!fits) return;
    naive_.set(t.page, t.first + t.blocks, more, true);
    t.blocks += more;
  }

  void move_out_and_in() {
    const uint32_t page = input_.below(kPages);
    if (naive_.empty(page)) return;
    set_.remove(&pages_[page]);
    CHECK(set_.is_consistent());
    set_.add(&pages_[page]);
  }

  FuzzInput input_;
  std::unique_ptr<HugePage[]> pages_;
  PageSet set_;
  Naive naive_;
  std::vector<Taken> taken_;
};

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  llamalloc::Run({data, size}).run();
  return 0;
}
