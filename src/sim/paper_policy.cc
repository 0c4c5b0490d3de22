// SPDX-License-Identifier: Apache-2.0
#include "sim/paper_policy.h"

namespace llamalloc::sim {
namespace {

constexpr uint64_t kGranule = 16;

uint32_t first_block_of(uint64_t offset) {
  return static_cast<uint32_t>(offset >> kBlockShift) % kBlocksPerHugePage;
}

}  // namespace

uint64_t PaperPolicy::allocate(const Request& request) {
  now_ = pages_.time = request.now;
  if (is_direct(request.size, request.alignment())) return take_direct(request.size);
  if (is_large(request.size, request.alignment())) return allocate_large(request);
  return allocate_small(request);
}

uint64_t PaperPolicy::allocate_large(const Request& request) {
  const Blocks blocks = Blocks::covering(request.size);
  const uint64_t alignment = request.alignment();
  const uint32_t align =
      alignment > kBlockSize ? static_cast<uint32_t>(alignment >> kBlockShift) : 1;
  const PageSet::Place place = take_blocks(class_of(request.lifetime), blocks, align, true);
  if (place.page == nullptr) return kNoAddress;
  rounding_ += blocks.bytes() - request.size;
  return offset_of(place.page, place.first);
}

// ----- Spans of lines -----

uint64_t PaperPolicy::allocate_small(const Request& request) {
  if (request.thread >= locals_.size()) locals_.resize(request.thread + 1u);
  const int lifetime = class_of(request.lifetime);
  const uint64_t bytes = align_up(request.size, kGranule);
  const uint64_t alignment = request.alignment() > kGranule ? request.alignment() : kGranule;
  Local& local = locals_[request.thread][lifetime];
  while (true) {
    uint64_t offset = bump(local.main, bytes, alignment);
    const bool in_gaps = local.main.span != kNoSpan && local.main.limit < kSpanBytes;
    if (offset == kNoAddress && in_gaps && bytes > kLine) {
      offset = bump(local.overflow, bytes, alignment);
      if (offset == kNoAddress) {
        close(local.overflow);
        if (!open_gap(local.overflow, lifetime, false)) return kNoAddress;
        continue;
      }
    }
    if (offset != kNoAddress) {
      span_objects_ += request.size;
      return offset;
    }
    if (next_gap(local.main)) continue;
    close(local.main);
    local.main = local.overflow;
    local.overflow = {};
    if (local.main.span == kNoSpan && !open_gap(local.main, lifetime, true)) return kNoAddress;
  }
}

// From the gap's front; kNoAddress if it is too small.
uint64_t PaperPolicy::bump(Gap& gap, uint64_t bytes, uint64_t alignment) {
  if (gap.span == kNoSpan) return kNoAddress;
  LineSpan& span = spans_[gap.span];
  const uint64_t start = align_up(span.offset + gap.cursor, alignment) - span.offset;
  if (start + bytes > gap.limit) return kNoAddress;
  gap.cursor = static_cast<uint32_t>(start + bytes);
  count_lines(span, start, bytes, 1);
  ++span.live;
  return span.offset + start;
}

void PaperPolicy::count_lines(LineSpan& span, uint64_t from, uint64_t bytes, int change) {
  for (uint64_t line = from / kLine; line <= (from + bytes - 1) / kLine; ++line)
    span.lines[line] = static_cast<uint8_t>(span.lines[line] + change);
}

// The next free lines behind the gap.
bool PaperPolicy::next_gap(Gap& gap) {
  if (gap.span == kNoSpan) return false;
  const LineSpan& span = spans_[gap.span];
  uint32_t line = static_cast<uint32_t>(gap.limit / kLine);
  while (line < kLines && span.lines[line] != 0) ++line;
  if (line == kLines) return false;
  gap.cursor = line * kLine;
  while (line < kLines && span.lines[line] == 0) ++line;
  gap.limit = line * kLine;
  return true;
}

bool PaperPolicy::open_gap(Gap& gap, int lifetime, bool recycled) {
  gap = {};
  if (recycled) gap.span = recycled_span(lifetime);
  if (gap.span == kNoSpan) gap.span = new_span(lifetime, now_);
  if (gap.span == kNoSpan) return false;
  spans_[gap.span].open = true;
  return next_gap(gap);
}

uint32_t PaperPolicy::new_span(int lifetime, Nanos) {
  const PageSet::Place place = take_blocks(lifetime, kSpanBlocks, kSpanBlocks.n, false);
  if (place.page == nullptr) return kNoSpan;
  uint32_t index;
  if (free_spans_.empty()) {
    index = static_cast<uint32_t>(spans_.size());
    spans_.emplace_back();
  } else {
    index = free_spans_.back();
    free_spans_.pop_back();
  }
  LineSpan& span = spans_[index];
  span.offset = offset_of(place.page, place.first);
  span.page = place.page;
  span.live = 0;
  span.lines = {};
  ++live_spans_;
  const size_t block = block_at(span.offset);
  if (span_of_block_.size() < block + kSpanBlocks.n)
    span_of_block_.resize(block + kSpanBlocks.n, kNoSpan);
  for (uint32_t i = 0; i < kSpanBlocks.n; ++i) span_of_block_[block + i] = index;
  return index;
}

// A closed span with free lines on a page of a longer-lived class that is past a deadline.
uint32_t PaperPolicy::recycled_span(int lifetime) {
  for (int c = kLongest; c > lifetime; --c)
    while (!partial_[c].empty()) {
      const PartialSpan found = partial_[c].back();
      partial_[c].pop_back();
      const LineSpan& span = spans_[found.span];
      const bool same = span.generation == found.generation && span.page != nullptr;
      if (!same || span.open || state(span.page).lifetime <= lifetime) continue;
      for (uint8_t objects : span.lines)
        if (objects == 0) return found.span;
    }
  return kNoSpan;
}

void PaperPolicy::close(Gap& gap) {
  if (gap.span == kNoSpan) return;
  spans_[gap.span].open = false;
  if (spans_[gap.span].live == 0) free_span(gap.span);
  gap = {};
}

void PaperPolicy::free_span(uint32_t index) {
  LineSpan& span = spans_[index];
  const size_t block = block_at(span.offset);
  for (uint32_t i = 0; i < kSpanBlocks.n; ++i) span_of_block_[block + i] = kNoSpan;
  HugePage* page = span.page;
  span.page = nullptr;
  ++span.generation;
  --live_spans_;
  free_spans_.push_back(index);
  give_blocks(page, first_block_of(span.offset), kSpanBlocks);
}

// ----- Blocks of huge pages -----

PageSet::Place PaperPolicy::take_blocks(int lifetime, Blocks blocks, uint32_t alignment,
                                        bool large) {
  PageSet::Place place = recycle(lifetime, blocks, alignment, large);
  if (place.page) return place;
  place = open_[lifetime].take(blocks, alignment);
  if (place.page == nullptr) {
    while (HugePage* page = open_[lifetime].find([](HugePage*) { return true; })) activate(page);
    HugePage* page = acquire();
    if (page == nullptr) return {};
    const size_t index = pages_.offset_of(page->base) >> kHugePageShift;
    if (states_.size() <= index) states_.resize(index + 1), page_of_.resize(index + 1);
    states_[index] = {};
    states_[index].lifetime = lifetime;
    page_of_[index] = page;
    place = open_[lifetime].take_first(page, blocks);
  }
  used_blocks_ += blocks.n;
  state(place.page).residual.set(place.first, blocks.n);
  if (place.page->used_blocks == kBlocksPerHugePage) activate(place.page);
  return place;
}

PageSet::Place PaperPolicy::recycle(int lifetime, Blocks blocks, uint32_t alignment, bool large) {
  for (int i = lifetime + 1; i <= kLongest; ++i) {
    const int c = large ? i : kLongest - (i - lifetime - 1);
    const PageSet::Place place = active_[c].take(blocks, alignment);
    if (place.page == nullptr) continue;
    used_blocks_ += blocks.n;
    return place;
  }
  return {};
}

void PaperPolicy::activate(HugePage* page) {
  const int lifetime = state(page).lifetime;
  open_[lifetime].remove(page);
  state(page).active = true;
  active_[lifetime].add(page);
  set_class(page, lifetime);
}

// Moves an active page to a class and gives it a new deadline.
void PaperPolicy::set_class(HugePage* page, int lifetime) {
  PageState& s = state(page);
  if (s.lifetime != lifetime) {
    active_[s.lifetime].remove(page);
    active_[lifetime].add(page);
    s.lifetime = lifetime;
  }
  if (lifetime == kLongest) {
    s.deadline = {INT64_MAX};
    return;
  }
  s.deadline = now_ + Nanos{k_ * kLifetimeClassRows[lifetime].bound.n};
  expiries_.push({s.deadline, page});
}

void PaperPolicy::give_blocks(HugePage* page, uint32_t first, Blocks blocks) {
  used_blocks_ -= blocks.n;
  PageState& s = state(page);
  s.residual.clear(first, blocks.n);
  PageSet& set = s.active ? active_[s.lifetime] : open_[s.lifetime];
  if (set.give_back(page, first, blocks)) {
    s = {};
    put_empty(page, now_);
    pool_.release(now_, 0);
    return;
  }
  if (!s.active || s.lifetime == 0 || s.residual.count() > 0) return;
  s.residual = page->used;
  ++demotions_;
  set_class(page, s.lifetime - 1);
}

void PaperPolicy::advance(Nanos now) {
  now_ = pages_.time = now;
  pool_.collapse_first_pages();
  while (!expiries_.empty() && expiries_.top().deadline <= now) {
    const Expiry due = expiries_.top();
    expiries_.pop();
    PageState& s = state(due.page);
    if (!s.active || s.deadline != due.deadline) continue;
    ++promotions_;
    set_class(due.page, s.lifetime + 1);
    list_partial_spans(due.page, s.lifetime);
  }
}

void PaperPolicy::list_partial_spans(const HugePage* page, int lifetime) {
  const size_t block = block_at(pages_.offset_of(page->base));
  for (size_t i = 0; i < kBlocksPerHugePage && block + i < span_of_block_.size(); ++i) {
    const uint32_t index = span_of_block_[block + i];
    if (index == kNoSpan || block_at(spans_[index].offset) != block + i) continue;
    if (!spans_[index].open) partial_[lifetime].push_back({index, spans_[index].generation});
  }
}

// ----- Frees -----

void PaperPolicy::free(uint64_t address, uint64_t bytes, uint32_t, Nanos now) {
  now_ = pages_.time = now;
  if (address >= kDirectBase) return give_direct(address, bytes);
  const size_t block = block_at(address);
  const uint32_t index = block < span_of_block_.size() ? span_of_block_[block] : kNoSpan;
  if (index == kNoSpan) {
    const Blocks blocks = Blocks::covering(bytes);
    rounding_ -= blocks.bytes() - bytes;
    return give_blocks(page_of_[address >> kHugePageShift], first_block_of(address), blocks);
  }
  LineSpan& span = spans_[index];
  CHECK(span.live > 0);
  count_lines(span, address - span.offset, align_up(bytes, kGranule), -1);
  span_objects_ -= bytes;
  if (--span.live == 0 && !span.open) free_span(index);
}

uint64_t PaperPolicy::resize(uint64_t address, uint64_t bytes, const Request& request) {
  const uint64_t size = request.size;
  const bool direct = address >= kDirectBase;
  if (direct != is_direct(size, 1)) return Policy::resize(address, bytes, request);
  if (direct) {
    if (!DirectSpace::same_room(bytes, size)) return Policy::resize(address, bytes, request);
    rounding_ += DirectSpace::backed(size) - size;
    rounding_ -= DirectSpace::backed(bytes) - bytes;
    pages_.direct.change(bytes, size);
    return address;
  }
  const size_t block = block_at(address);
  const bool small = block < span_of_block_.size() && span_of_block_[block] != kNoSpan;
  const bool stays = small ? align_up(size, kGranule) == align_up(bytes, kGranule)
                           : Blocks::covering(size) == Blocks::covering(bytes);
  if (!stays) return Policy::resize(address, bytes, request);
  if (small)
    span_objects_ += size - bytes;
  else
    rounding_ += bytes - size;
  return address;
}

// What threads could still fill of their spans counts as theirs, what died in closed ones not.
Losses PaperPolicy::losses() {
  Losses losses;
  for (const auto& thread : locals_)
    for (const Local& local : thread)
      for (const Gap* gap : {&local.main, &local.overflow})
        if (gap->span != kNoSpan) losses.thread_caches += gap->limit - gap->cursor;
  losses.free_slots = live_spans_ * kSpanBytes - span_objects_ - losses.thread_caches;
  losses.rounding = rounding_;
  losses.free_blocks = used_pages_ * kHugePageSize - used_blocks_ * kBlockSize;
  losses.empty_pages = pool_.counts().empty_backed * kHugePageSize;
  losses.metadata =
      arena_.resident_bytes() + spans_.size() * kLines + states_.size() * sizeof(PageState);
  return losses;
}

}  // namespace llamalloc::sim
