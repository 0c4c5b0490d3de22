// SPDX-License-Identifier: Apache-2.0
// First-fit and best-fit in one range of 16-byte granules. Adjacent gaps are merged; huge page
// borders are ignored. Objects have no headers, so only the cost of the strategy is measured.
//
//   gaps_: offset -> bytes, by address; no two touch
//   best-fit: by_size_ holds the same gaps by (bytes, offset)
//   first-fit: largest_ is a tree of maxima: of the gaps that begin in each 8 KiB, the largest
#pragma once

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "sim/policy.h"

namespace llamalloc::sim {

class FitPolicy final : public Policy {
 public:
  enum class Choice { first, best };
  explicit FitPolicy(Choice choice) : choice_(choice) {}

  uint64_t allocate(const Request& request) override;
  void free(uint64_t address, uint64_t bytes, uint32_t thread, Nanos now) override;
  uint64_t resize(uint64_t address, uint64_t bytes, const Request& request) override;
  void advance(Nanos now) override;
  Losses losses() override;
  bool is_consistent() override;
  PageLedger& ledger() override { return ledger_; }
  const DirectSpace& direct() const override { return direct_; }

 private:
  static constexpr uint64_t kGranule = 16;
  static constexpr uint64_t kLargest = uint64_t{1} << 20;
  using Gaps = std::map<uint64_t, uint64_t>;
  struct Empty {
    size_t page;
    Nanos since;
  };
  struct PageUse {
    uint64_t live = 0;  // bytes of granules
    Nanos emptied{};
  };

  static uint64_t taken_for(uint64_t bytes) { return align_up(bytes, kGranule); }
  Gaps::iterator find(uint64_t bytes);
  Gaps::iterator first_fit(uint64_t bytes);
  Gaps::iterator grow(uint64_t bytes);
  void add_gap(uint64_t offset, uint64_t bytes);
  void remove_gap(Gaps::iterator gap);
  void refresh_tree(uint64_t offset);
  void use(uint64_t offset, uint64_t bytes);
  void unuse(uint64_t offset, uint64_t bytes, Nanos now);

  Choice choice_;
  PageLedger ledger_;
  DirectSpace direct_;
  Gaps gaps_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;
  std::vector<uint64_t> largest_ = std::vector<uint64_t>(2, 0);
  size_t leaves_ = 1;
  uint64_t end_ = 0;  // of the range
  std::vector<PageUse> pages_;
  std::deque<Empty> empties_;
  size_t live_pages_ = 0;
  uint64_t live_bytes_ = 0;  // granules
  uint64_t rounding_ = 0;
};

}  // namespace llamalloc::sim
