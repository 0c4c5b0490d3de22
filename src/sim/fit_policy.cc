// SPDX-License-Identifier: Apache-2.0
#include "sim/fit_policy.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace llamalloc::sim {

uint64_t FitPolicy::allocate(const Request& request) {
  const uint64_t alignment = std::max(request.alignment(), kGranule);
  if (request.size > kLargest || alignment > kLargest) {
    const uint64_t offset = direct_.take(request.size);
    if (offset != kNoAddress) rounding_ += DirectSpace::backed(request.size) - request.size;
    return offset;
  }
  const uint64_t bytes = taken_for(request.size);
  const auto gap = find(bytes + alignment - kGranule);
  if (gap == gaps_.end()) return kNoAddress;
  const uint64_t from = gap->first, until = gap->first + gap->second;
  const uint64_t offset = align_up(from, alignment);
  remove_gap(gap);
  if (offset > from) add_gap(from, offset - from);
  if (offset + bytes < until) add_gap(offset + bytes, until - offset - bytes);
  use(offset, bytes);
  rounding_ += bytes - request.size;
  return offset;
}

FitPolicy::Gaps::iterator FitPolicy::find(uint64_t bytes) {
  if (choice_ == Choice::first) {
    const auto gap = first_fit(bytes);
    return gap != gaps_.end() ? gap : grow(bytes);
  }
  const auto gap = by_size_.lower_bound({bytes, 0});
  return gap != by_size_.end() ? gaps_.find(gap->second) : grow(bytes);
}

FitPolicy::Gaps::iterator FitPolicy::first_fit(uint64_t bytes) {
  if (largest_[1] < bytes) return gaps_.end();
  size_t node = 1;
  while (node < leaves_) node = largest_[node * 2] >= bytes ? node * 2 : node * 2 + 1;
  auto gap = gaps_.lower_bound((node - leaves_) << kBlockShift);
  while (gap->second < bytes) ++gap;
  return gap;
}

// Huge pages at the end, merged with the last gap, until it is large enough.
FitPolicy::Gaps::iterator FitPolicy::grow(uint64_t bytes) {
  uint64_t from = end_;
  if (!gaps_.empty()) {
    const auto last = std::prev(gaps_.end());
    if (last->first + last->second == end_) {
      from = last->first;
      remove_gap(last);
    }
  }
  end_ = align_up(from + bytes, kHugePageSize);
  if (end_ > kDirectBase) return gaps_.end();
  pages_.resize(end_ >> kHugePageShift);
  if (leaves_ < end_ >> kBlockShift) {
    leaves_ = std::bit_ceil(end_ >> kBlockShift);
    largest_.assign(leaves_ * 2, 0);
    for (const auto& [offset, size] : gaps_)
      largest_[leaves_ + (offset >> kBlockShift)] =
          std::max(largest_[leaves_ + (offset >> kBlockShift)], size);
    for (size_t node = leaves_ - 1; node > 0; --node)
      largest_[node] = std::max(largest_[node * 2], largest_[node * 2 + 1]);
  }
  add_gap(from, end_ - from);
  return gaps_.find(from);
}

void FitPolicy::add_gap(uint64_t offset, uint64_t bytes) {
  gaps_.emplace(offset, bytes);
  if (choice_ == Choice::best)
    by_size_.emplace(bytes, offset);
  else
    refresh_tree(offset);
}

void FitPolicy::remove_gap(Gaps::iterator gap) {
  const uint64_t offset = gap->first;
  if (choice_ == Choice::best) by_size_.erase({gap->second, offset});
  gaps_.erase(gap);
  if (choice_ == Choice::first) refresh_tree(offset);
}

void FitPolicy::refresh_tree(uint64_t offset) {
  const uint64_t block = offset >> kBlockShift;
  uint64_t most = 0;
  const uint64_t end = (block + 1) << kBlockShift;
  for (auto gap = gaps_.lower_bound(block << kBlockShift); gap != gaps_.end() && gap->first < end;
       ++gap)
    most = std::max(most, gap->second);
  size_t node = leaves_ + block;
  largest_[node] = most;
  for (node /= 2; node > 0; node /= 2) {
    const uint64_t both = std::max(largest_[node * 2], largest_[node * 2 + 1]);
    if (largest_[node] == both) break;
    largest_[node] = both;
  }
}

void FitPolicy::free(uint64_t address, uint64_t bytes, uint32_t, Nanos now) {
  if (address >= kDirectBase) {
    rounding_ -= DirectSpace::backed(bytes) - bytes;
    direct_.give(address, bytes);
    return;
  }
  const uint64_t size = taken_for(bytes);
  rounding_ -= size - bytes;
  unuse(address, size, now);
  uint64_t from = address, until = address + size;
  auto next = gaps_.lower_bound(address);
  CHECK(next == gaps_.end() || next->first >= until);
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    CHECK(before->first + before->second <= address);
    if (before->first + before->second == address) {
      from = before->first;
      remove_gap(before);
    }
  }
  if (next != gaps_.end() && next->first == until) {
    until += next->second;
    remove_gap(next);
  }
  add_gap(from, until - from);
}

uint64_t FitPolicy::resize(uint64_t address, uint64_t bytes, const Request& request) {
  const bool direct = address >= kDirectBase;
  const uint64_t size = request.size;
  const bool stays = direct ? size > kLargest && DirectSpace::same_room(bytes, size)
                            : taken_for(bytes) == taken_for(size);
  if (!stays) return Policy::resize(address, bytes, request);
  if (direct) {
    rounding_ += DirectSpace::backed(size) - size;
    rounding_ -= DirectSpace::backed(bytes) - bytes;
    direct_.change(bytes, size);
  } else {
    rounding_ += bytes - size;
  }
  return address;
}

void FitPolicy::use(uint64_t offset, uint64_t bytes) {
  live_bytes_ += bytes;
  for (uint64_t at = offset, end = offset + bytes; at < end;) {
    const uint64_t stop = std::min(end, align_up(at + 1, kHugePageSize));
    PageUse& page = pages_[at >> kHugePageShift];
    live_pages_ += page.live == 0;
    page.live += stop - at;
    at = stop;
  }
}

void FitPolicy::unuse(uint64_t offset, uint64_t bytes, Nanos now) {
  live_bytes_ -= bytes;
  for (uint64_t at = offset, end = offset + bytes; at < end;) {
    const uint64_t stop = std::min(end, align_up(at + 1, kHugePageSize));
    PageUse& page = pages_[at >> kHugePageShift];
    page.live -= stop - at;
    if (page.live == 0) {
      --live_pages_;
      page.emptied = now;
      empties_.push_back({at >> kHugePageShift, now});
    }
    at = stop;
  }
}

void FitPolicy::advance(Nanos now) {
  while (!empties_.empty() && empties_.front().since <= now - kReleaseDelay) {
    const Empty empty = empties_.front();
    empties_.pop_front();
    const PageUse& page = pages_[empty.page];
    if (page.live == 0 && page.emptied == empty.since) ledger_.discard(empty.page);
  }
}

Losses FitPolicy::losses() {
  Losses losses;
  losses.rounding = rounding_;
  losses.free_slots = live_pages_ * kHugePageSize - live_bytes_;
  losses.empty_pages = (ledger_.backed_pages() - live_pages_) * kHugePageSize;
  return losses;
}

bool FitPolicy::is_consistent() {
  uint64_t free = 0, previous_end = kNoAddress;
  bool good = ledger_.is_consistent();
  for (const auto& [offset, bytes] : gaps_) {
    good &= offset != previous_end && bytes > 0;
    previous_end = offset + bytes;
    free += bytes;
  }
  return good && free + live_bytes_ == end_;
}

}  // namespace llamalloc::sim
