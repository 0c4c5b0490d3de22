// SPDX-License-Identifier: Apache-2.0
#include "sim/slab_policy.h"

namespace llamalloc::sim {
namespace {

// The size class that serves the request; -1: whole blocks do.
int class_for(uint64_t size, uint64_t alignment) {
  if (size > kSmallMax || alignment > kBlockSize) return -1;
  int c = size_class_of(size < alignment ? alignment : size);
  if (alignment <= 16) return c;
  while (c < kSizeClasses && kSizeClassRows[c].size % alignment != 0) ++c;
  return c < kSizeClasses ? c : -1;
}

uint64_t span_bytes(int size_class) {
  return uint64_t{kSizeClassRows[size_class].blocks} * kBlockSize;
}

}  // namespace

template <typename Spans, typename Pages>
uint64_t SlabPolicy<Spans, Pages>::allocate(const Request& request) {
  const uint64_t alignment = request.alignment();
  if (is_direct(request.size, alignment)) return take_direct(request.size);
  const int size_class = class_for(request.size, alignment);
  if (size_class < 0) return allocate_run(request.size, alignment);
  const uint64_t offset = allocate_slot(size_class);
  if (offset != kNoAddress) rounding_ += kSizeClassRows[size_class].size - request.size;
  return offset;
}

template <typename Spans, typename Pages>
uint64_t SlabPolicy<Spans, Pages>::allocate_slot(int size_class) {
  Spans& spans = partial_[size_class];
  SlabSpan* span = spans.best();
  if (span == nullptr) {
    span = new_span(size_class);
    if (span == nullptr) return kNoAddress;
    spans.add(span);
  }
  int word = 0;
  while (span->words[word] == 0) ++word;
  const int bit = std::countr_zero(span->words[word]);
  const uint32_t left = span->free - 1u;
  const bool moves = left == 0 || Spans::moves(span, span->free, left);
  if (moves) spans.remove(span);
  span->words[word] &= span->words[word] - 1;
  span->free = static_cast<uint16_t>(left);
  if (moves && left > 0) spans.add(span);
  const uint64_t size = kSizeClassRows[size_class].size;
  free_slots_ -= size;
  return span->offset + static_cast<uint64_t>(word * 64 + bit) * size;
}

template <typename Spans, typename Pages>
SlabSpan* SlabPolicy<Spans, Pages>::new_span(int size_class) {
  const SizeClassRow& shape = kSizeClassRows[size_class];
  const PageSet::Place place = take_blocks({shape.blocks}, 1);
  if (place.page == nullptr) return nullptr;
  SlabSpan* span;
  if (free_records_.empty()) {
    span = &records_.emplace_back();
  } else {
    span = free_records_.back();
    free_records_.pop_back();
    *span = {};
  }
  span->offset = offset_of(place.page, place.first);
  span->page = place.page;
  span->size_class = static_cast<uint16_t>(size_class);
  span->slots = span->free = shape.slots;
  for (int w = 0; w < 16; ++w) {
    const int left = shape.slots - w * 64;
    span->words[w] = left >= 64 ? ~uint64_t{0} : left > 0 ? (uint64_t{1} << left) - 1 : 0;
  }
  free_slots_ += span_bytes(size_class);
  set_owner(span->offset, shape.blocks, span, place.page);
  return span;
}

template <typename Spans, typename Pages>
uint64_t SlabPolicy<Spans, Pages>::allocate_run(uint64_t bytes, uint64_t alignment) {
  const Blocks blocks = Blocks::covering(bytes);
  const uint32_t align =
      alignment > kBlockSize ? static_cast<uint32_t>(alignment >> kBlockShift) : 1;
  const PageSet::Place place = take_blocks(blocks, align);
  if (place.page == nullptr) return kNoAddress;
  const uint64_t offset = offset_of(place.page, place.first);
  set_owner(offset, 1, nullptr, place.page);
  rounding_ += blocks.bytes() - bytes;
  return offset;
}

template <typename Spans, typename Pages>
void SlabPolicy<Spans, Pages>::free(uint64_t address, uint64_t bytes, uint32_t, Nanos now) {
  if (address >= kDirectBase) return give_direct(address, bytes);
  const Owner owner = owners_[block_at(address)];
  if (owner.span) {
    rounding_ -= kSizeClassRows[owner.span->size_class].size - bytes;
    return free_slot(owner.span, address, now);
  }
  const Blocks blocks = Blocks::covering(bytes);
  rounding_ -= blocks.bytes() - bytes;
  give_blocks(owner.page, block_at(address) % kBlocksPerHugePage, blocks, now);
}

template <typename Spans, typename Pages>
void SlabPolicy<Spans, Pages>::free_slot(SlabSpan* span, uint64_t address, Nanos now) {
  const uint64_t size = kSizeClassRows[span->size_class].size;
  const uint64_t slot = (address - span->offset) / size;
  CHECK((span->words[slot >> 6] >> (slot & 63) & 1) == 0);
  Spans& spans = partial_[span->size_class];
  const uint32_t more = span->free + 1u;
  const bool moves = span->free == 0 || more == span->slots || Spans::moves(span, span->free, more);
  if (moves && span->free > 0) spans.remove(span);
  span->words[slot >> 6] |= uint64_t{1} << (slot & 63);
  span->free = static_cast<uint16_t>(more);
  free_slots_ += size;
  if (more < span->slots) {
    if (moves) spans.add(span);
    return;
  }
  const Blocks blocks{kSizeClassRows[span->size_class].blocks};
  free_slots_ -= blocks.bytes();
  set_owner(span->offset, blocks.n, nullptr, nullptr);
  free_records_.push_back(span);
  give_blocks(span->page, block_at(span->offset) % kBlocksPerHugePage, blocks, now);
}

template <typename Spans, typename Pages>
uint64_t SlabPolicy<Spans, Pages>::resize(uint64_t address, uint64_t bytes,
                                          const Request& request) {
  const uint64_t size = request.size;
  if (address >= kDirectBase) {
    if (!is_direct(size, 1) || !DirectSpace::same_room(bytes, size))
      return Policy::resize(address, bytes, request);
    rounding_ += DirectSpace::backed(size) - size;
    rounding_ -= DirectSpace::backed(bytes) - bytes;
    pages_.direct.change(bytes, size);
    return address;
  }
  const SlabSpan* span = owners_[block_at(address)].span;
  const bool stays = span ? size <= kSizeClassRows[span->size_class].size &&
                                size_class_of(size) == span->size_class
                          : Blocks::covering(size) == Blocks::covering(bytes) && size > kSmallMax;
  if (!stays) return Policy::resize(address, bytes, request);
  rounding_ += bytes - size;
  return address;
}

template <typename Spans, typename Pages>
PageSet::Place SlabPolicy<Spans, Pages>::take_blocks(Blocks blocks, uint32_t alignment) {
  PageSet::Place place = set_.take(blocks, alignment);
  if (place.page == nullptr) {
    HugePage* page = acquire();
    if (page) place = set_.take_first(page, blocks);
  }
  if (place.page) used_blocks_ += blocks.n;
  return place;
}

template <typename Spans, typename Pages>
void SlabPolicy<Spans, Pages>::give_blocks(HugePage* page, uint32_t first, Blocks blocks,
                                           Nanos now) {
  used_blocks_ -= blocks.n;
  if (set_.give_back(page, first, blocks)) put_empty(page, now);
}

template <typename Spans, typename Pages>
void SlabPolicy<Spans, Pages>::set_owner(uint64_t offset, uint32_t blocks, SlabSpan* span,
                                         HugePage* page) {
  const size_t first = block_at(offset);
  if (owners_.size() < first + blocks) owners_.resize(first + blocks);
  for (size_t i = first; i < first + blocks; ++i) owners_[i] = {span, page};
}

template <typename Spans, typename Pages>
Losses SlabPolicy<Spans, Pages>::losses() {
  Losses losses;
  losses.rounding = rounding_;
  losses.free_slots = free_slots_;
  losses.free_blocks = used_pages_ * kHugePageSize - used_blocks_ * kBlockSize;
  losses.empty_pages = pool_.counts().empty_backed * kHugePageSize;
  losses.metadata = arena_.resident_bytes() + records_.size() * sizeof(SlabSpan);
  return losses;
}

template class SlabPolicy<FullestSpans, FullestPages>;
template class SlabPolicy<LowestSpans, PageSet>;

}  // namespace llamalloc::sim
