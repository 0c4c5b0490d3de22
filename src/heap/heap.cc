// SPDX-License-Identifier: Apache-2.0
#include "heap/heap.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace llamalloc {

// ----- Slots -----

namespace {

// Slots that a bin's depot has place for.
size_t depot_capacity(int bin) {
  return std::min<size_t>(kDepotBytes / slot_size_of(bin), kDepotSlots);
}

// Takes up to n slots of the span, the lowest first, and writes them downwards from `end`.
size_t take_from_span(Span* span, void** end, size_t n) {
  void** out = end;
  char* base = span->base;
  const size_t size = span->slot_size;
  uint64_t* const words_end = span->words() + span->word_count();
  for (uint64_t* word = span->words(); word != words_end && n != 0; ++word, base += 64 * size) {
    const uint64_t bits = __atomic_load_n(word, __ATOMIC_RELAXED);
    uint64_t left = bits;
    for (; left != 0 && n != 0; left &= left - 1, --n)
      *--out = base + static_cast<size_t>(std::countr_zero(left)) * size;
    if (left != bits) Span::clear_bits(word, bits & ~left);
  }
  return static_cast<size_t>(end - out);
}

}  // namespace

size_t Heap::take(int bin, void** out, size_t n, int shard) {
  if (shard != 0 && Lock::this_thread_holds_all()) shard = 0;  // none may be opened
  const bool joins = joins_.load(std::memory_order_relaxed) && bin < kSizeClasses;  // of `unknown`
  const bool shares = joins || may_take_from_groups(bin);
  size_t taken = take_from(bin, out, n, shares ? Opens::never : Opens::sparingly, shard);
  if (taken == 0 && joins) {
    taken = take_from_groups(bin, out, n, shard);
  } else if (taken == 0 && shares) {
    const bool outgrown = has_outgrown_load();
    if (!outgrown) taken = take_from(bin, out, n, Opens::sparingly, shard);
    if (taken == 0 && shards_.any()) taken = take_from_others(bin, out, n, shard);
    if (taken == 0 && outgrown) taken = take_from_groups(bin, out, n, shard);
  }
  if (taken == 0) {  // perhaps held back
    drain_shelves();
    if (shards_.any() && bin < kLocalBins) taken = take_from_others(bin, out, n, shard);
    if (taken == 0) taken = take_from(bin, out, n, Opens::always, shard);
    if (taken == 0 && shard != 0) taken = take_from(bin, out, n, Opens::always, 0);
  }
  settle();
  return taken;
}

[[gnu::cold, gnu::noinline]] void* Heap::take_last_resort(int bin) {
  void* slot = nullptr;
  if (bin >= kSizeClasses) return slot;
  for (int other = bin + kSizeClasses; slot == nullptr && other < kLocalBins; other += kSizeClasses)
    if (bins_[other].spans.load(std::memory_order_relaxed) != 0 &&
        take_from(other, &slot, 1, Opens::never, 0) == 0)
      take_from_others(other, &slot, 1, 0);
  settle();
  return slot;
}

// A shard takes over what the bin itself has free before it opens a span.
size_t Heap::take_from(int bin, void** out, size_t n, Opens opens, int shard) {
  if (shard == 0) return take_from_bin(bin, out, n, opens, 0);
  size_t taken = take_from_bin(bin, out, n, Opens::never, shard);
  if (taken == 0 && bins_[bin].may_have_any()) taken = take_over(bin, 0, shard, out, n);
  return taken != 0 ? taken : take_from_bin(bin, out, n, opens, shard);
}

// Opens a new span only for the first slot: what a thread takes beyond is for its convenience.
size_t Heap::take_from_bin(int bin_index, void** out, size_t n, Opens opens, int shard) {
  if (shard != 0) open_shard(bin_index, shard);
  Bin& bin = bin_at(bin_index, shard);
  if (bin.in_depot() == 0 && !bin.may_have_any() && is_unlisted(bin_index, shard))
    return opens == Opens::never ? 0 : open_unlisted(bin_index, out + n, opens);
  LockGuard guard(bin.lock);
  if (shard != 0) {
    if (!shards_.is_open(shard, bin_index)) return 0;  // it was closed again
    bin.used.store(true, std::memory_order_relaxed);
  }
  const size_t left = take_from_depot(bin, out + n, n);
  if (left != 0) return left;
  list_pending(bin);
  const size_t taken = take_listed(bin, out + n, n);
  if (taken != 0 || opens == Opens::never) return taken;
  if (is_unlisted(bin_index, shard)) return open_unlisted(bin_index, out + n, opens);
  Span* span = new_span(bin_index, shard, opens != Opens::sparingly);
  if (span == nullptr) return 0;
  bin.list(span);
  bins_[bin_index].spans.fetch_add(1, std::memory_order_relaxed);
  if (shard != 0) {
    bin.spans.fetch_add(1, std::memory_order_relaxed);
    earn_spare(bin, bin_index);
  }
  return take_listed(bin, out + n, n);
}

// Without the bin's lock: the span is born with its slot taken. While somebody has that slot the
// span is in no list, so no other thread changes its record or finds it through the bin; and who
// frees the slot (one thread, by Span::set_bits) closes it. Looks at the page hold its set's lock.
[[gnu::noinline]] size_t Heap::open_unlisted(int bin_index, void** end, Opens opens) {
  Span* span = new_span(bin_index, 0, opens != Opens::sparingly);
  if (span == nullptr) return 0;
  bins_[bin_index].spans.fetch_add(1, std::memory_order_relaxed);
  bins_[bin_index].taken.fetch_add(1, std::memory_order_relaxed);
  end[-1] = span->base;
  return 1;
}

// Of spans that are listed, the lowest first; downwards from `end`.
size_t Heap::take_listed(Bin& bin, void** end, size_t n) {
  size_t taken = 0;
  while (taken < n) {
    Span* span = bin.partial.min();
    if (span == nullptr) break;
    SLOW_DCHECK(span->is_consistent());
    if (span->is_spare()) use_spare(bin, span);
    const size_t got = take_from_span(span, end - taken, n - taken);
    taken += got;
    pages_.touch(span->page);
    // Out of the list before the sum says so: from then on another thread may link it.
    const bool leaves = span->free_now() <= static_cast<int>(got);
    if (leaves) bin.unlist(span);
    if (span->add_free(-static_cast<int>(got)) > 0 && leaves) bin.list(span);
  }
  if (taken != 0) bin.taken.fetch_add(taken, std::memory_order_relaxed);
  return taken;
}

// Where others use the bin, nobody waits for its lock: that would cost more than the way to the
// spans.
void* Heap::deposit(int bin_index, void* const* slots, size_t n) {
  int shard = 0;
  if (__builtin_expect(shards_.any(), 0))
    if (const Span* span = map_.find(slots[0]); span != nullptr && span->serves(bin_index))
      shard = span->home_now().shard;
  Bin& bin = bin_at(bin_index, shard);
  if (n != 1 && bin.in_depot() + n > depot_capacity(bin_index)) return give(bin_index, slots, n);
  if (!bin.lock.try_lock()) {
    ++waits_of_this_thread;
    return give(bin_index, slots, n);
  }
  const bool twice = n == 1 && bin.is_newest(slots[0]);
  const bool open = shard == 0 || shards_.is_open(shard, bin_index);
  const bool done = twice || (open && put_in_depot(bin, bin_index, slots, n));
  bin.lock.unlock();
  if (!done) return give(bin_index, slots, n);
  return twice ? slots[0] : nullptr;
}

bool Heap::is_free(int bin_index, const void* slot) {
  const Span* const span = map_.find(slot);
  if (span == nullptr || !span->serves(bin_index)) return false;
  const uint64_t index = span->slot_of(slot);
  if (index < span->slots && span->has_free(index)) return true;
  Bin& bin = bin_at(bin_index, span->home_now().shard);
  if (bin.in_depot() == 0) return false;
  if (!bin.lock.try_lock()) {
    ++waits_of_this_thread;
    return false;
  }
  const bool newest = bin.is_newest(slot);
  bin.lock.unlock();
  return newest;
}

// What an empty depot keeps of its room is one step, so that the sum is not written each time; in a
// shard all of it, for then threads would wait for each other at the sum.
size_t Heap::take_from_depot(Bin& bin, void** end, size_t n) {
  const uint32_t held = bin.in_depot();
  if (held == 0) return 0;
  const size_t taken = held < n ? held : n;
  const uint32_t left = held - static_cast<uint32_t>(taken);
  bin.deposited.store(left, std::memory_order_relaxed);
  memcpy(end - taken, bin.depot.slots + left, taken * sizeof(void*));
  if (left == 0 && bin.may_spare.load(std::memory_order_relaxed) == 0) keep_room(bin, kDepotStep);
  return taken;
}

void Heap::keep_room(Bin& bin, uint32_t bytes) {
  if (bin.depot.room <= bytes) return;
  depot_room_.fetch_sub(bin.depot.room - bytes, std::memory_order_relaxed);
  bin.depot.room = bytes;
}

bool Heap::put_in_depot(Bin& bin, int bin_index, void* const* slots, size_t n) {
  Depot& depot = bin.depot;
  const size_t held = bin.in_depot(), now = held + n;
  if (now > depot_capacity(bin_index)) return false;
  const size_t bytes = now * slot_size_of(bin_index);
  if (bytes > depot.room) {
    const size_t step = align_up(bytes - depot.room, kDepotStep);
    if (depot_room_.load(std::memory_order_relaxed) + step > cache_limit()) return false;
    depot_room_.fetch_add(step, std::memory_order_relaxed);
    depot.room += static_cast<uint32_t>(step);
  }
  if (depot.slots == nullptr) depot.slots = arena_.make_array<void*>(depot_capacity(bin_index));
  if (depot.slots == nullptr) return false;
  memcpy(depot.slots + held, slots, n * sizeof(void*));
  bin.deposited.store(static_cast<uint32_t>(now), std::memory_order_relaxed);
  return true;
}

[[gnu::cold]] size_t Heap::depot_bytes() const {
  size_t bytes = 0;
  for (int b = 0; b < kLocalBins; ++b) bytes += bins_[b].in_depot() * slot_size_of(b);
  shards_.for_each_open(
      [&](int shard, int b) { bytes += shards_.at(shard, b).in_depot() * slot_size_of(b); });
  return bytes;
}

// So many at a time that nobody waits long for the lock, and not what comes meanwhile.
[[gnu::cold]] void* Heap::drain_depot(Bin& bin, int bin_index) {
  constexpr size_t kStep = 64;
  void* twice = nullptr;
  size_t left = bin.in_depot() + 1;  // at the end it is found empty, or there is more
  for (size_t n = kStep; n == kStep && left != 0; left -= std::min(left, n)) {
    void* slots[kStep];
    {
      LockGuard guard(bin.lock);
      n = take_from_depot(bin, slots + kStep, kStep);
      if (n != kStep) keep_room(bin, 0);
    }
    void* bad = give(bin_index, slots + kStep - n, n);
    if (bad != nullptr) twice = bad;
  }
  return twice;
}

[[gnu::cold]] void* Heap::drain_depots() {
  shelves_.halve_rooms();
  drain_shelves();
  void* twice = empty_depots();
  if (shards_.any()) settle_shards();
  return twice;
}

[[gnu::cold]] void* Heap::empty_depots() {
  void* twice = twice_.exchange(nullptr, std::memory_order_relaxed);
  const auto drain = [&](Bin& bin, int b) {
    if (depot_room_.load(std::memory_order_relaxed) == 0) return;
    if (void* bad = drain_depot(bin, b)) twice = bad;
  };
  for (int b = 0; b < kLocalBins; ++b) drain(bins_[b], b);
  shards_.for_each_open([&](int shard, int b) { drain(shards_.at(shard, b), b); });
  return twice;
}

[[gnu::cold]] bool Heap::drain_shelves() {
  const bool spares = drain_spares();
  if (!shelves_.any()) return spares;
  shelves_.drain([&](Kind kind, void* what) {
    if (kind.is_run())
      free_run(static_cast<Span*>(what));
    else if (give(static_cast<int>(kind.word), &what, 1) != nullptr)
      twice_.store(what, std::memory_order_relaxed);
  });
  return true;
}

// Slots freed together often lie together: a span is looked up and counted once for all of its
// slots that come in a row, a word is written once.
void* Heap::give(int bin_index, void* const* slots, size_t n) {
  void* twice = nullptr;
  Bin* bin = &bins_[bin_index];
  size_t counted = 0;  // of `bin`
  for (size_t i = 0; i < n;) {
    Span* span = map_.find(slots[i]);
    if (span == nullptr || !span->serves(bin_index)) {
      twice = slots[i++];
      continue;
    }
    uint64_t* const words = span->words();
    const uint64_t all = span->slots;
    const size_t first = i;
    size_t bad = 0;
    for (uint64_t slot = span->slot_of(slots[i]); slot < all;) {
      const uint64_t word = slot >> 6;
      const size_t from = i;
      uint64_t bits = 0;
      do {
        bits |= uint64_t{1} << (slot & 63);
        slot = ++i < n ? span->slot_of(slots[i]) : all;
      } while (slot < all && slot >> 6 == word && (bits >> (slot & 63) & 1) == 0);
      if (const uint64_t set = Span::set_bits(&words[word], bits); __builtin_expect(set != 0, 0)) {
        bad += static_cast<size_t>(std::popcount(set));
        for (size_t k = from; k < i; ++k)
          if ((set >> (span->slot_of(slots[k]) & 63) & 1) != 0) twice = slots[k];
      }
    }
    if (i == first) {  // not an object: behind the last slot of its span
      twice = slots[i++];
      continue;
    }
    const int freed = static_cast<int>(i - first - bad);
    if (freed == 0) continue;
    // Before it may become free, and its record another span's.
    if (Bin* here = &home_of(*span); here != bin) {
      if (counted != 0) bin->taken.fetch_sub(counted, std::memory_order_relaxed);
      bin = here;
      counted = 0;
    }
    counted += static_cast<size_t>(freed);
    note_freed(span, freed);
  }
  if (counted != 0) bin->taken.fetch_sub(counted, std::memory_order_relaxed);
  return twice;
}

// One thread's sum makes free_slots positive: it, and nobody else, appends the span to those that
// wait. From a span that is not listed nobody takes slots meanwhile.
void Heap::note_freed(Span* span, int freed) {
  const int bin_index = span->bin_now();
  const int all = span->slots;
  if (all == 1 && span->shard == 0) return close(span);  // in no list: see open_unlisted
  const int now = span->add_free(freed);
  if (now > 0 && now <= freed) {
    let_wait(home_of(*span), span);  // it is not listed: it stays there
  } else if (now != all) {
    return;
  }
  // Also after it was appended: who freed the rest meanwhile may not have found it in the list, and
  // left it to this thread. The record may be another span's by now; then this is in vain.
  if (span->free_now() == all) free_if_empty(bin_index, span);
}

void Heap::free_if_empty(int bin_index, Span* span) {
  for (;;) {
    const Span::Home home = span->home_now();
    if (!home.serves(bin_index)) return;
    Bin& bin = bin_at(home.bin, home.shard);
    LockGuard guard(bin.lock);
    list_pending(bin);
    // By one load: while we hold the lock, only what is in the list of that bin reads so.
    const Span::Home now = span->home_now();
    if (now.listed == Span::Listed::no || !now.serves(bin_index)) return;
    if (now.bin != home.bin || now.shard != home.shard) continue;  // it moved meanwhile
    if (now.listed == Span::Listed::spare || span->free_now() != span->slots) return;
    return keep_or_free(bin, span);
  }
}

void Heap::let_wait(Bin& bin, Span* span) {
  Span* head = bin.pending.load();
  do span->links.next = head;
  while (!bin.pending.compare_exchange_weak(head, span));
}

// A few at once: malloc comes here, and a load that drops may have left tens of thousands. Who
// freed the last slot of one that waits did not find it in the list.
void Heap::list_waiting(Bin& bin) {
  constexpr int kAtOnce = 64;
  Span* span = bin.backlog.load(std::memory_order_relaxed);
  if (span == nullptr) span = bin.pending.exchange(nullptr);
  for (int i = 0; i < kAtOnce && span != nullptr; ++i) {
    Span* const next = span->links.next;
    SLOW_DCHECK(span->is_consistent());
    bin.list(span);
    if (span->free_now() == span->slots) keep_or_free(bin, span);
    span = next;
  }
  if (span == bin.backlog.load(std::memory_order_relaxed)) return;  // mostly there is none
  bin.backlog.store(span, std::memory_order_relaxed);
  if (bin.has_waiting()) has_backlog_.store(true, std::memory_order_release);
}

// Spans among them may be free, as among those that came while there was a backlog.
[[gnu::cold]] void Heap::list_backlogs() {
  if (!has_backlog_.exchange(false, std::memory_order_acquire)) return;
  const auto list_all = [&](Bin& bin) {
    for (bool awaited = false; bin.has_waiting();) {
      if (awaited) let_others_first();
      LockGuard guard(bin.lock);
      list_pending(bin);
      awaited = bin.lock.is_awaited();
    }
  };
  for (Bin& bin : bins_) list_all(bin);
  shards_.for_each_open([&](int shard, int b) { list_all(shards_.at(shard, b)); });
}

// A listed one, all of whose slots are free.
void Heap::keep_or_free(Bin& bin, Span* span) {
  const Span::Home home = span->home_now();
  home.shard != 0 && may_keep(bin, home.bin, home.shard) ? keep_spare(bin, span)
                                                         : free_span(bin, span);
}

Span* Heap::new_span(int bin_index, int shard, bool may_grow) {
  const SizeClassRow& shape = kSizeClassRows[bin_index % kSizeClasses];
  const SpanShape room = shape_of_bin(bin_index);
  const Blocks blocks{room.blocks};
  const PageGroup group = group_of_bin(bin_index);
  const Grain grain = grain_of(shape.size);
  const bool elsewhere = !may_grow && may_take_from_groups(bin_index) && !pages_.has_empty();
  const PageHeap::Place place = elsewhere ? pages_.take_in_use(group, blocks, 1, grain)
                                          : take_blocks(group, blocks, 1, grain, may_grow);
  if (place.page == nullptr) return nullptr;
  Span* span = static_cast<Span*>(place.page->record_at(place.first));
  span->base = place.start();
  span->magic = shape.magic;
  span->slot_size = shape.size;
  span->sampled = bin_index >= kLocalBins;
  span->fresh = place.fresh;
  span->set_shard(shard);
  span->set_listed(Span::Listed::no);
  span->slots = room.slots;
  span->page = place.page;
  span->kind = SpanKind::slots;
  span->set_bin(bin_index);
  const int free = room.slots == 1 && shard == 0 ? 0 : room.slots;
  span->store_free(free);
  for (int w = 0; w < span->word_count(); ++w) {
    const int left = free - w * 64;
    span->words()[w] = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
  }
  set_in_map(*span, blocks, span);
  return span;
}

// A listed one.
void Heap::free_span(Bin& bin, Span* span) {
  bin.unlist(span);
  if (span->shard != 0) bin.spans.fetch_sub(1, std::memory_order_relaxed);
  close(span);
}

void Heap::close(Span* span) {
  const Blocks blocks{shape_of_bin(span->bin).blocks};
  bins_[span->bin].spans.fetch_sub(1, std::memory_order_relaxed);
  set_in_map(*span, blocks, nullptr);
  span->set_bin(kNoSpanBin);
  pages_.give(span->page, span->base, blocks);
}

// Of a span with one slot the first block says where the object is, as with a run: to write and
// clear dozens of entries would cost as much as to find the blocks.
void Heap::set_in_map(const Span& span, Blocks blocks, Span* entry) {
  if (span.slots == 1) blocks = {1};
  if (span.sampled)
    map_.set(span.base, blocks, entry);
  else
    map_.set_slots(span.base, blocks, entry, span.bin);
}

// ----- Blocks -----

// may_grow: otherwise no page is taken from the system while something may be shelved, or free in a
// shard. Whoever gets none then empties the shelves, and looks there, which takes locks that the
// caller may hold now, and asks again.
// What is free but kept, or free in pages for other objects, helps out only where the system has no
// memory: it is not to shape the heap.
[[gnu::noinline]] PageHeap::Place Heap::take_blocks(PageGroup group, Blocks blocks,
                                                    uint32_t alignment, Grain grain,
                                                    bool may_grow) {
  if (!may_grow && (shelves_.any() || shards_.any()) && !pages_.has_empty())
    return pages_.take_in_use(group, blocks, alignment, grain);
  PageHeap::Place place = pages_.take(group, blocks, alignment, grain);
  if (place.page == nullptr && direct_.release(Nanos::max()) != 0)
    place = pages_.take(group, blocks, alignment, grain);
  if (place.page == nullptr) place = pages_.take_anywhere(blocks, alignment);
  return place;
}

// ----- Runs and direct mappings -----

Span* Heap::allocate(size_t bytes, size_t alignment, PageGroup group, bool sampled) {
  const bool in_page = fills_page(bytes) && alignment <= kHugePageSize && pages_.has_empty();
  const bool as_run =
      direct_.count() < kApartMappings ? fits_run(bytes, alignment) : may_be_run(bytes, alignment);
  Span* span = as_run || in_page ? allocate_run(bytes, alignment, group, sampled)
                                 : allocate_direct(bytes, alignment, sampled);
  settle();
  return span;
}

// Pages that only what is shelved keeps from being empty make room, too.
Span* Heap::allocate_direct(size_t bytes, size_t alignment, bool sampled, bool grows) {
  Span* span = direct_.allocate(bytes, alignment, sampled, grows);
  if (span == nullptr && direct_.could_map(bytes) && drain_shelves())
    span = direct_.allocate(bytes, alignment, sampled, grows);
  return span;
}

Span* Heap::allocate_run(size_t bytes, size_t alignment, PageGroup group, bool sampled) {
  const Blocks blocks = blocks_of_run(bytes);
  const size_t align_blocks = alignment > kBlockSize ? alignment >> kBlockShift : 1;
  const auto run_alignment = static_cast<uint32_t>(align_blocks);
  const bool opens = may_open_for(blocks);
  Span* span = new_run(blocks, run_alignment, group, opens);
  if (span == nullptr && !opens) {
    if ((span = allocate_direct(blocks.bytes(), alignment, sampled)) != nullptr) return span;
    span = new_run(blocks, run_alignment, group, true);
  }
  if (span == nullptr) return nullptr;
  span->sampled = sampled;
  map_.set(span->base, {1}, span);
  return span;
}

Span* Heap::new_run(Blocks blocks, uint32_t alignment, PageGroup group, bool opens) {
  const Grain grain = grain_of(blocks.bytes());
  PageHeap::Place place = opens ? take_blocks(group, blocks, alignment, grain, false)
                                : pages_.take_in_use(group, blocks, alignment, grain);
  if (place.page == nullptr && opens) {  // perhaps held back
    drain_shelves();
    place = take_blocks(group, blocks, alignment, grain, true);
  }
  return place.page ? run_at(place, blocks, group) : nullptr;
}

Span* Heap::run_at(const PageHeap::Place& place, Blocks blocks, PageGroup group) {
  Span* span = static_cast<Span*>(place.page->record_at(place.first));
  span->become_whole(SpanKind::run);
  span->base = place.start();
  span->page = place.page;
  span->fresh = place.fresh;
  span->bytes = blocks.bytes();
  span->resized = false;
  span->asked = group;
  return span;
}

// A page for a run: not where pages have much left over already that only smaller objects can use.
// There may be too many mappings, and empty pages that stay in any case.
bool Heap::may_open_for(Blocks blocks) const {
  return !leaves_much(blocks) ||
         free_blocks() <= kLittleLeft + (held_bytes() + direct_.bytes()) / kLeftShare ||
         direct_.count() >= kApartMappings || pages_.retains_empty();
}

bool Heap::has_few_holes() const {
  return free_blocks() <= kFewHoles + held_bytes() / kHoleShare;
}

// Twice the room, aligned, so that the next one does not begin where this one ends; the second half
// goes back at once. No page is opened for that.
Span* Heap::allocate_growing(size_t bytes, PageGroup group) {
  if (bytes > kRunMax) {
    Span* span = allocate_direct(bytes, 1, false, true);
    settle();
    return span;
  }
  const Blocks blocks = Blocks::covering(bytes);
  const Blocks room{2 * blocks.n};
  const PageHeap::Place place =
      bytes <= kRunMax / 2 && has_few_holes()
          ? pages_.take_in_use(group, room, std::bit_ceil(room.n), grain_of(bytes))
          : PageHeap::Place{};
  if (place.page == nullptr) return allocate(bytes, 1, group, false);
  Span* span = run_at(place, room, group);
  span->sampled = false;
  resize(span, bytes);
  map_.set(span->base, {1}, span);
  return span;
}

void* Heap::resize(Span* span, size_t bytes) {
  if (span->kind == SpanKind::direct) {
    if (bytes <= kRunMax) {
      const bool stays = span->bytes <= kRunMax && bytes > span->bytes / 2 && bytes > kLeastRun;
      if (!stays) return nullptr;
      bytes = Blocks::covering(bytes).bytes();
    }
    void* resized = direct_.resize(span, bytes);
    const bool may_help = resized == nullptr && direct_.could_map(less(bytes, span->bytes));
    if (may_help && drain_shelves()) resized = direct_.resize(span, bytes);
    settle();
    return resized;
  }
  if (span->kind != SpanKind::run || bytes <= kLeastGrowing) return nullptr;
  if (bytes > kRunMax && bytes > span->bytes) return nullptr;  // perhaps more than Blocks hold
  const Blocks have = Blocks::covering(span->bytes);
  const Blocks want = Blocks::covering(bytes);
  if (want == have) return span->base;
  if (want > have && !pages_.extend(span->page, span->base, have, want)) return nullptr;
  span->resized = true;
  span->store_bytes(want.bytes());  // first: where it ends the span of somebody else may begin
  if (want < have) pages_.give(span->page, span->base + want.bytes(), {have.n - want.n});
  return span->base;
}

}  // namespace llamalloc
