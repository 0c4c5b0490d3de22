// SPDX-License-Identifier: Apache-2.0
#include "pages/page_set.h"

#include <algorithm>

namespace llamalloc {

int PageSet::bucket_of(uint32_t longest_run) {
  const int run = static_cast<int>(longest_run);
  return run < kExact ? run : kExact + (run - kExact) / kLengths;
}

void PageSet::insert(HugePage* page) {
  const int b = bucket_of(page->longest_run);
  AddressHeap<HugePage>& bucket = buckets_[page->broken][b];
  bucket.insert(page);
  lowest_[page->broken][b] = bucket.min()->base;
  filled_[page->broken][b / 64] |= uint64_t{1} << b % 64;
}

void PageSet::erase(HugePage* page) {
  const int b = bucket_of(page->longest_run);
  AddressHeap<HugePage>& bucket = buckets_[page->broken][b];
  bucket.remove(page);
  if (bucket.empty())
    filled_[page->broken][b / 64] &= ~(uint64_t{1} << b % 64);
  else
    lowest_[page->broken][b] = bucket.min()->base;
}

// Most changes leave the page in its bucket.
void PageSet::move(HugePage* page, uint32_t longest_run) {
  const bool stays = bucket_of(longest_run) == bucket_of(page->longest_run);
  if (!stays) erase(page);
  page->longest_run = static_cast<uint16_t>(longest_run);
  if (!stays) insert(page);
}

void PageSet::add(HugePage* page) {
  page->set = this;
  insert(page);
  count(1);
}

void PageSet::remove(HugePage* page) {
  if (newest_ == page) newest_ = nullptr;
  erase(page);
  count(-1);
}

[[gnu::cold]] void PageSet::mark_broken(HugePage* page, bool broken) {
  erase(page);
  page->broken = broken;
  insert(page);
}

// In the buckets before `end`. Of each only the lowest page is tried, also if it is the exception
// or has no run that is aligned. There may be many buckets: no page is read that need not be.
HugePage* PageSet::lowest_fit(Blocks blocks, uint32_t alignment, int end, const HugePage* except,
                              bool broken) const {
  const auto fits = [&](const HugePage* page) {
    return page->longest_run >= blocks.n && page != except &&
           (alignment <= 1 || page->used.find_clear(blocks.n, alignment) != kBlocksPerHugePage);
  };
  const bool all_fit = alignment <= 1 && except == nullptr && blocks.n <= kExact;
  HugePage* best = nullptr;
  const char* base = nullptr;
  const int from = bucket_of(blocks.n);
  for (int w = from / 64; 64 * w < end; ++w) {
    uint64_t left = filled_[broken][w];
    if (w == from / 64) left &= ~uint64_t{0} << from % 64;
    if (end - 64 * w < 64) left &= (uint64_t{1} << (end - 64 * w)) - 1;
    for (; left != 0; left &= left - 1) {
      const int b = 64 * w + std::countr_zero(left);
      if (best != nullptr && base < lowest_[broken][b]) continue;
      HugePage* page = buckets_[broken][b].min();
      if (!all_fit && !fits(page)) continue;
      best = page;
      base = lowest_[broken][b];
    }
  }
  return best;
}

// A walk over every page that may fit. Those of the bucket of n may be too short; where alignment
// is asked for, even a long run may not do.
[[gnu::cold]] HugePage* PageSet::find_fit(Blocks blocks, uint32_t alignment, bool broken,
                                          bool may_back) const {
  HugePage* best = nullptr;
  for (int b = bucket_of(blocks.n); b < kBuckets; ++b)
    buckets_[broken][b].for_each([&](HugePage* page) {
      if (page->longest_run < blocks.n || (best && best->base < page->base)) return;
      if (page->taken(may_back).find_clear(blocks.n, alignment) != kBlocksPerHugePage) best = page;
    });
  return best;
}

bool PageSet::has_memory(const HugePage* page, uint32_t first, uint32_t n) {
  return !page->broken || page->dirty.next(first, false) >= first + n;
}

[[gnu::always_inline]] inline PageSet::Place PageSet::take_at(HugePage* page, uint32_t first,
                                                              Blocks blocks) {
  Place place{page, first, !page->dirty.any(first, blocks.n)};
  place.newly_backed = use(page, first, blocks.n);
  return place;
}

[[gnu::always_inline]] inline PageSet::Place PageSet::take_from(HugePage* page, Blocks blocks,
                                                                uint32_t alignment, bool may_back) {
  const uint32_t first = page->used.find_clear(blocks.n, alignment);
  DCHECK(first < kBlocksPerHugePage);
  if (!may_back && !has_memory(page, first, blocks.n)) return {};
  return take_at(page, first, blocks);
}

[[gnu::cold]] PageSet::Place PageSet::search(Blocks blocks, uint32_t alignment, bool may_back) {
  HugePage* page = find_fit(blocks, alignment, false, may_back);
  if (page == nullptr) page = find_fit(blocks, alignment, true, may_back);
  if (page == nullptr) return {};
  return take_at(page, page->taken(may_back).find_clear(blocks.n, alignment), blocks);
}

PageSet::Place PageSet::take(Blocks blocks, uint32_t alignment, const PageFilter& among,
                             bool may_back) {
  const int end = std::min(bucket_of(among.below), kBuckets);
  const HugePage* except =
      newest_ != nullptr && newest_->opened > among.opened_until ? newest_ : nullptr;
  HugePage* page = lowest_fit(blocks, alignment, end, except, false);
  if (page == nullptr) page = lowest_fit(blocks, alignment, end, except, true);
  if (page == nullptr) return {};
  return take_from(page, blocks, alignment, may_back);
}

PageSet::Place PageSet::take_first(HugePage* page, Blocks blocks) {
  page->set = this;
  page->mended_from = 0;  // it may be in pieces still
  count(1);
  insert(page);
  newest_ = page;
  return take_from(page, blocks, 1, true);
}

// Returns how many of the blocks had no memory.
uint32_t PageSet::soil(HugePage* page, uint32_t first, uint32_t n) {
  const uint32_t before = page->broken ? page->dirty.count() : 0;
  page->dirty.set(first, n);
  return page->broken ? page->dirty.count() - before : 0;
}

// Free blocks become used. Returns how many had no memory. What is left of the run that they were
// in is the longest one if all other free blocks together are no more. A walk over all runs only
// where neither says it.
uint32_t PageSet::use(HugePage* page, uint32_t first, uint32_t n) {
  const uint32_t start = page->used.start_of_clear(first);
  const uint32_t end = page->used.next(first + n, true);
  const uint32_t left = std::max(first - start, end - (first + n));
  const uint32_t elsewhere = kBlocksPerHugePage - page->used_blocks - (end - start);
  page->used.set(first, n);
  page->used_blocks = static_cast<uint16_t>(page->used_blocks + n);
  if (end - start == page->longest_run)
    move(page, left >= elsewhere ? left : page->used.longest_clear());
  return soil(page, first, n);
}

bool PageSet::give_back(HugePage* page, uint32_t first, Blocks blocks) {
  page->used.clear(first, blocks.n);
  page->used_blocks = static_cast<uint16_t>(page->used_blocks - blocks.n);
  const uint32_t run = page->used.next(first, true) - page->used.start_of_clear(first);
  return refit(page, std::max<uint32_t>(page->longest_run, run));
}

// After blocks became free. True if the page is empty; then it is in the set no longer.
bool PageSet::refit(HugePage* page, uint32_t longest_run) {
  move(page, longest_run);
  if (page->used_blocks != 0) return false;
  remove(page);
  return true;
}

[[gnu::cold]] BlockBits PageSet::take_rest(HugePage* page) {
  BlockBits rest;
  rest.set(0, kBlocksPerHugePage);
  rest.clear(page->used);
  page->used.set(0, kBlocksPerHugePage);
  page->used_blocks = kBlocksPerHugePage;
  move(page, 0);
  return rest;
}

[[gnu::cold]] bool PageSet::give_rest(HugePage* page, const BlockBits& rest, bool clean) {
  if (clean) page->dirty.clear(rest);
  page->used.clear(rest);
  page->used_blocks = static_cast<uint16_t>(page->used.count());
  return refit(page, page->used.longest_clear());
}

bool PageSet::extend(HugePage* page, uint32_t first, Blocks old_blocks, Blocks new_blocks,
                     uint32_t* newly_backed, bool may_back) {
  const uint32_t from = first + old_blocks.n;
  const uint32_t more = new_blocks.n - old_blocks.n;
  if (from + more > kBlocksPerHugePage || page->used.any(from, more)) return false;
  if (!may_back && !has_memory(page, from, more)) return false;
  *newly_backed = use(page, from, more);
  return true;
}

bool PageSet::is_consistent() {
  bool good = newest_ == nullptr || newest_->set == this;
  uint32_t pages = 0;
  for (const bool broken : {false, true})
    for (int b = 0; b < kBuckets; ++b) {
      const AddressHeap<HugePage>& bucket = buckets_[broken][b];
      good &= bucket.is_consistent() &&
              bucket.empty() == ((filled_[broken][b / 64] >> b % 64 & 1) == 0) &&
              (bucket.empty() || lowest_[broken][b] == bucket.min()->base);
      bucket.for_each([&](HugePage* page) {
        ++pages;
        good &= page->is_consistent() && page->set == this && page->used_blocks > 0 &&
                page->broken == broken && bucket_of(page->longest_run) == b;
      });
    }
  return good && pages == pages_.load(std::memory_order_relaxed);
}

}  // namespace llamalloc
