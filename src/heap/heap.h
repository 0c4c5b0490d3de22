// SPDX-License-Identifier: Apache-2.0
// The heap: slots, runs and direct mappings, placed by page group. It knows groups and predicts
// nothing; threads, clocks and options belong to the layers above.
//
//   take / give              slots of a bin = (page group, size class, sampled or not)
//   allocate / deallocate    runs of blocks above 256 KiB; direct mappings above 1 MiB, and of runs
//                            that would leave much of a page
//   allocate_growing         runs above 12 KiB and mappings, of objects that realloc makes larger
//
//   bin --span--> blocks of a page that serves the group (pages/page_heap.h)
//
// No system call happens under a bin's lock, except for new pages.
//
// Need comes first: when the heap grows beyond its recent peak, what is empty elsewhere goes back
// to the system at once, before the new memory is touched. So what one kind of objects has left
// does not add to what the next one takes.
#pragma once

#include <algorithm>
#include <cstddef>

#include "heap/bin.h"
#include "heap/bin_number.h"
#include "heap/bin_shards.h"
#include "heap/direct_mappings.h"
#include "heap/recent_peak.h"
#include "heap/shelves.h"
#include "heap/span.h"
#include "heap/span_map.h"
#include "pages/page_heap.h"

namespace llamalloc {

inline constexpr size_t kRunMax = size_t{1} << 20;
inline constexpr size_t kLeastRun = kLeastSpanBlocks * kBlockSize;
inline constexpr size_t kLeastGrowing = kLeastRun * 3 / 4;  // smaller ones are better slots

constexpr bool may_be_run(size_t bytes, size_t alignment) {
  return bytes <= kRunMax && alignment <= kRunMax;
}

// A huge page has places for two objects that are aligned to 1 MiB, and all of it is in memory:
// what needs a quarter of its alignment at most gets a mapping, unless there are very many.
constexpr bool fits_run(size_t bytes, size_t alignment) {
  constexpr size_t kFar = size_t{64} << 10;
  const bool is_thin = alignment >= kFar && align_up(bytes, kBlockSize) <= alignment / 4;
  return may_be_run(bytes, alignment) && !is_thin;
}

// A mapping of that size would take just the memory of one huge page.
constexpr bool fills_page(size_t bytes) {
  return align_up(bytes, kSmallPage) == kHugePageSize;
}

// Whether an object of `have` bytes that realloc makes larger goes where it can grow further, as
// such objects often do: a run in its page, what fills a page in a mapping. Up to 32 KiB, only if
// rounding up to whole blocks wastes at most an eighth, as with slots. Below 12 KiB the copies are
// cheap.
constexpr bool may_grow_again(size_t have, size_t want) {
  if (want <= have) return false;
  if (want > kRunMax) return fills_page(want);
  return want > kTableMax ||
         (want > kLeastGrowing && Blocks::covering(want).bytes() - want <= want / 8);
}

// Whether pages that hold only such runs have more than a sixth of their blocks left, which smaller
// objects alone can use.
constexpr bool leaves_much(Blocks blocks) {
  return blocks.n < kBlocksPerHugePage && kBlocksPerHugePage % blocks.n > kBlocksPerHugePage / 6;
}

constexpr Blocks blocks_of_run(size_t bytes) {
  return Blocks::covering(bytes < kLeastRun ? kLeastRun : bytes);
}

// The contents of one huge page; of[kSizeClasses] counts its runs, one slot each.
struct PageCounts {
  struct Slots {
    uint32_t objects = 0;  // including slots in thread caches, depots and shelves
    uint32_t slots = 0;
  };
  Slots of[kSizeClasses + 1];
  size_t allocated = 0;   // bytes in slots and runs that are not free
  size_t in_spans = 0;    // bytes of blocks in spans
  size_t free_slots = 0;  // bytes
  size_t unbacked = 0;    // bytes of free blocks that went back to the system
};

struct GroupCounts {
  size_t pages = 0;
  size_t allocated = 0;    // bytes in slots and runs that are not free; cached slots count too
  size_t free_slots = 0;   // bytes
  size_t free_blocks = 0;  // bytes
  size_t broken = 0;       // pages, of `pages`
  size_t unbacked = 0;     // bytes of free_blocks that went back to the system

  void add(const HugePage& page, const PageCounts& counts);
};

// The limit for all depots together, and a fair share for all magazines of all threads: a 64th of
// the heap, within these bounds. Threads that are busy may cache more (next_budget in
// magazines.cc), but all together no more than the upper bound and their first budgets.
inline constexpr size_t kLeastCached = size_t{1} << 20;
inline constexpr size_t kMostCached = size_t{32} << 20;
// For all shelves together a 16th of the heap, within these bounds; more where threads wait for
// each other (magazines.h). Room is earned besides, and is no longer there when the heap grows.
inline constexpr size_t kLeastShelved = size_t{16} << 20;
inline constexpr size_t kMostShelved = size_t{1} << 30;

// The large tables. They are not part of Heap, so that they are in .bss and not in .data.
struct HeapTables {
  SpanMap map;
  Bin bins[kBins];
  BinShards shards;  // behind the bins, as their locks are taken
  Shelves shelves;
  PageSets sets;
};

class Heap {
 public:
  constexpr Heap(PageSource& system, MetadataArena& arena, HeapTables& tables)
      : system_(system),
        arena_(arena),
        map_(tables.map),
        bins_(tables.bins),
        shards_(tables.shards),
        shelves_(tables.shelves),
        map_tables_(tables.map, system),
        pages_(system, arena, map_tables_, tables.sets),
        direct_(system, arena, tables.map, pages_) {}

  PageHeap& pages() { return pages_; }
  const PageHeap& pages() const { return pages_; }
  // For its figures, and to release what is freed; objects come and go by the functions below.
  DirectMappings& direct() { return direct_; }
  const DirectMappings& direct() const { return direct_; }

  Span* find(const void* pointer) const { return map_.find(pointer); }

  // Takes up to n free slots of the bin: from its depot if it has any, else lowest addresses first.
  // Puts them at the end of out[0..n), the lowest last, so that a stack pops them in order of
  // address. Returns how many; 0: take_last_resort() may have one.
  // shard: of the caller's processor, where threads wait for each other, and the bin is local; 0.
  size_t take(int bin, void** out, size_t n, int shard = 0);
  // One slot, or null.
  void* take_one(int bin, int shard = 0) {
    void* slot = nullptr;
    return take(bin, &slot, 1, shard) == 1 ? slot : take_last_resort(bin);
  }
  // After take() found none: a slot that another group has free; null: no memory.
  void* take_last_resort(int bin);
  // Where placement by lifetime is given up, what it left would otherwise stay free. All pages, and
  // all spans that have free slots, are of `unknown` from now on. Placement puts fine and coarse
  // objects in the same pages: those with many coarse ones serve such alone, and fine spans in them
  // are not filled any more, or few of them would pin all those pages. What a thread has in hand of
  // another bin is given back as before. By the worker.
  void join_pages();
  // False: no span of another group is left; full ones join later, or when `unknown` has nothing
  // free of their size.
  bool join_spans();
  // Placement begins again: the spans of the groups are theirs.
  void keep_spans() { joins_.store(false, std::memory_order_relaxed); }
  // Bytes that were live at most of late, while objects are placed by lifetime. Where a heap that
  // is larger by more than 1/kOutgrown has nothing free in a group, spans with free slots change
  // their group instead: what was freed in one group serves the others, since the load needs no
  // more than before. 0: never.
  void note_most_live(size_t bytes) { most_live_.store(bytes, std::memory_order_relaxed); }
  // Gives back slots of the bin (starts of objects), without its lock unless a span of several
  // slots becomes free.
  // Returns a slot that was free already (a double free, which is otherwise ignored), or null.
  void* give(int bin, void* const* slots, size_t n);
  // The same for slots of a local bin that another thread may want soon: of the shard of the first
  // one's span. A double free among several may show only when the depot is drained. If another
  // thread holds the lock, they go to their spans.
  void* deposit(int bin, void* const* slots, size_t n);
  // Whether the slot is free in its span, or the newest in the depot: then it was freed twice.
  // Where another thread holds the lock, the depot is not looked at.
  bool is_free(int bin, const void* slot);
  // Returns what is in depots and on shelves to the spans and pages, and halves the rooms of the
  // shelves and for spares; shards that nobody used give their spans to the bin. Same result as
  // give(). Once a second, by the worker.
  void* drain_depots();
  // The heap grew beyond its recent peak while much of it was free: whoever comes next, and no
  // other thread (begin_room), empties his own cache and then calls make_room(), which empties the
  // depots and gives back as much as the heap grew. Same result as give().
  bool wants_caches() const { return wants_caches_.load(std::memory_order_relaxed); }
  void want_caches() { wants_caches_.store(true, std::memory_order_relaxed); }
  bool begin_room();
  struct Filling {
    size_t pages, used;  // in use; bytes of blocks
  };
  Filling filling() const { return {pages_.in_use(), pages_.used_bytes()}; }
  void* make_room(const Filling& before);
  // Whether some pages became empty since, or many blocks free.
  bool has_made_room(const Filling& before) const;
  // What is cached elsewhere made room meanwhile: it was not in vain.
  void forget_vain_tries() {
    free_in_vain_.store(0, std::memory_order_relaxed);
    scattered_in_vain_.store(0, std::memory_order_relaxed);
  }
  // Whether that should come before a run is placed.
  bool may_scatter_runs() const;
  // ----- Shelves -----
  Shelf& next_shelf() { return shelves_.next(); }
  // A slot of a large bin goes on the shelf. False: there is no room.
  bool shelve(Shelf& shelf, int bin, void* slot) {
    return shelves_.put(shelf, Kind::of_slot(bin), slot);
  }
  // The same for a run that may_shelve(), after hide().
  bool shelve_run(Shelf& shelf, Span* run) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(run->base) >> kBlockShift;
    return shelves_.put(shelf, Kind::of_run(run->asked, Blocks::covering(run->bytes)), run,
                        address);
  }
  // Null: there is none of that bin, or of that length and group.
  void* take_shelved(Shelf& shelf, int bin) { return shelves_.take(shelf, Kind::of_slot(bin)); }
  Span* take_shelved(Shelf& shelf, PageGroup group, Blocks blocks, uint32_t alignment) {
    return static_cast<Span*>(shelves_.take(shelf, Kind::of_run(group, blocks), alignment));
  }
  // Bytes for the shelf of each of so many threads.
  size_t shelf_limit(size_t threads) const {
    const size_t part = pages_.in_use() * kHugePageSize / 16;
    return std::clamp(part, kLeastShelved, kMostShelved) / threads;
  }
  size_t shelved_bytes() const { return shelves_.bytes(); }
  // Memory of huge pages and mappings, free or not; a hint.
  size_t backed_bytes() const {
    return pages_.demand().level().backed + direct_.bytes() + direct_.kept_bytes();
  }
  // Once a second, by the worker: the peak of late is that of this second and the one before.
  void begin_epoch() {
    peak_.next(backed_bytes());
    forget_vain_tries();
    rooms_made_.store(0, std::memory_order_relaxed);
    direct_.begin_epoch();
  }
  // Bytes in the depots: a look at every bin and no lock; a hint.
  size_t depot_bytes() const;
  // How much all threads together may cache, in bytes.
  size_t cache_limit() const {
    const size_t part = pages_.in_use() * kHugePageSize / 64;
    return part < kLeastCached ? kLeastCached : part < kMostCached ? part : kMostCached;
  }
  void* give_one(void* slot) { return give(map_.find(slot)->bin_now(), &slot, 1); }

  // An object above kSmallMax bytes, or with a larger alignment (power of two) than slots have.
  // Null: no memory. span->fresh: the object reads as zero. What fills a huge page is a run, too,
  // if an empty page is there that has memory; when it is freed, the page serves objects of all
  // sizes. For a mapping only what is touched is charged, so none is taken from the system for it.
  Span* allocate(size_t bytes, size_t alignment, PageGroup group, bool sampled);
  // So much free space in pages in use, and one part in kHoleShare of what is held, are few holes.
  static constexpr size_t kFewHoles = size_t{16} << 20;
  static constexpr size_t kHoleShare = 8;
  // And these are little: where more is left over, runs that leave much get mappings.
  static constexpr size_t kLittleLeft = size_t{4} << 20;
  static constexpr size_t kLeftShare = 16;
  // A run above kLeastGrowing and up to kRunMax bytes. If a page in use has a place with the same
  // amount of free space behind it, the run goes there, so that it can grow; unless pages have many
  // holes already, since thousands of objects that grow would leave each hole half empty. A larger
  // object gets a mapping.
  Span* allocate_growing(size_t bytes, PageGroup group);
  void deallocate(Span* span) {
    hide(span);
    span->kind == SpanKind::direct ? direct_.deallocate(span) : free_run(span);
  }
  // The direct mapping that was freed last, if it fits; null: it does not. For at most
  // kKeptMappingMax bytes.
  Span* take_last_direct(size_t bytes) {
    Span* span = direct_.take_last(align_up(bytes, kSmallPage));
    if (span == nullptr) return nullptr;
    span->sampled = false;
    map_.set(span->base, {1}, span);
    return span;
  }
  // deallocate() for a direct mapping, only if the place for the mapping freed last is empty.
  // False: it is not, and nothing was done.
  bool keep_direct(Span* span) {
    if (!direct_.has_room_for(span)) return false;
    hide(span);
    direct_.keep_as_last(span);
    return true;
  }
  // The first half of deallocate(), for a thread that keeps a freed run for a while (magazines.h).
  void hide(Span* span) { map_.set(span->base, {1}, nullptr); }
  void free_run(Span* span) {  // the second half
    pages_.give(span->page, span->base, Blocks::covering(span->bytes));
  }
  // Whether a freed run is worth keeping for the next one of its length. One that was resized is
  // not: its length is not likely to be asked for, and where it lay the next object that grows
  // finds room. Nor is a whole page: any object may need it.
  static bool may_shelve(const Span& run) { return !run.resized && run.bytes <= kRunMax; }
  // Allocates a hidden run again.
  void show_again(Span* span) {
    span->fresh = false;
    pages_.touch(span->page);
    map_.set(span->base, {1}, span);
  }
  // Resizes a run or direct mapping without copying; null: not possible. Returns the address: a
  // direct mapping may move.
  void* resize(Span* span, size_t bytes);

  // Empties the shelves, which keep pages from being empty, as do spans of which nobody has seen
  // yet that they are free; then calls PageHeap::release.
  size_t release(Nanos before, size_t retain_pages, Nanos tables = Nanos::max(),
                 size_t most = SIZE_MAX) {
    list_backlogs();
    drain_shelves();
    return pages_.release(before, retain_pages, tables, most);
  }

  // Whether there is something to release: empty huge pages, or the tables of some; freed mappings
  // with memory behind them, and what mappings in use do not need; what is in depots or on shelves.
  bool has_empty_pages() const {
    return pages_.may_release() || pages_.has_tables() || direct_.has_to_release() ||
           shelves_.any() || shards_.any_spares() ||
           depot_room_.load(std::memory_order_relaxed) != 0;
  }
  // Whether there may be spans of which nobody has seen yet that they are free. Not part of the
  // above, for which free() asks.
  bool has_backlog() const { return has_backlog_.load(std::memory_order_relaxed); }
  // As PageHeap::publish.
  template <typename F>
  void publish(F&& f) const {
    f("heap.depot_bytes", &depot_room_);
    pages_.publish(f);
    direct_.publish(f);
  }
  // Resident bytes of the map from addresses to spans; the arena counts the span records.
  size_t map_bytes() const { return map_.resident_bytes(system_); }
  // Of huge pages, direct mappings apart; for the worker, a look at every bin and no lock. What
  // changes meanwhile is counted or not.
  //   held   pages in use, less what broken ones gave back, and spares
  //   live   slots and runs that are taken: magazines count, depots and shelves do not
  size_t held_bytes() const;
  size_t live_bytes() const;
  // The same without a walk: slots alone, whole pages, no lock; what threads cache is allocated.
  // Slots count for the group that their span serves now, pages for their own.
  GroupCounts quick_count(PageGroup group) const;
  GroupCounts count(PageGroup group);
  // The caller holds the lock of the page's set.
  PageCounts count(const HugePage& page) const;
  // By the size, since a span that is being freed has no bin any more.
  static Blocks blocks_of(const Span& span) {
    if (span.kind != SpanKind::slots) return Blocks::covering(span.object_size());
    const int size_class = size_class_of(span.slot_size);
    return {shape_of_bin(bin_of(PageGroup::unknown, size_class, span.sampled)).blocks};
  }
  // f(const Span&) for every span of the page, lowest first; the caller holds its set's lock. A run
  // may be resized meanwhile.
  template <typename F>
  void for_each_span(const HugePage& page, F&& f) const {
    for (uint32_t block = page.used.next(0, true); block < kBlocksPerHugePage;) {
      const Span* span = map_.find_any(page.base + block * kBlockSize);
      uint32_t blocks = 1;
      if (span != nullptr) {
        blocks = blocks_of(*span).n;
        f(*span);
      }
      block = page.used.next(block + blocks, true);
    }
  }

  // f(Lock&) for every lock, in the order in which they may be taken. Who holds them all stops no
  // thread that gives slots back: a child of a fork at that moment loses what that thread had in
  // hand: at most its batch and the rest of a span, a run or a span of one slot, or what it takes
  // from a shelf.
  template <typename F>
  void for_each_lock(F&& f) {
    for (Bin& bin : bins_) f(bin.lock);
    for_each_shard_lock(f);
    for_each_lock_beyond(f);
  }
  void lock_all() {
    for_each_lock([](Lock& lock) NO_THREAD_SAFETY_ANALYSIS { lock.lock(); });
  }
  // Those of shards first: none opens or closes while the bins are locked.
  void unlock_all() {
    const auto unlock = [](Lock& lock) NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); };
    for_each_shard_lock(unlock);
    for (Bin& bin : bins_) unlock(bin.lock);
    for_each_lock_beyond(unlock);
  }
  void reset_locks_after_fork() {
    for_each_lock([](Lock& lock) { lock.reset(); });
    shards_.reset_locks();
    shelves_.suspect();
    makes_room_.store(false, std::memory_order_relaxed);
  }
  bool is_consistent();

 private:
  template <typename F>
  void for_each_shard_lock(F&& f) {
    shards_.for_each_open([&](int shard, int bin) { f(shards_.at(shard, bin).lock); });
  }
  template <typename F>
  void for_each_lock_beyond(F&& f) {
    pages_.for_each_lock(f);
    f(direct_.lock());
    f(arena_.lock());
  }
  size_t take_from_depot(Bin& bin, void** end, size_t n) REQUIRES(bin.lock);
  // Of the room of a depot; the rest is for others.
  void keep_room(Bin& bin, uint32_t bytes) REQUIRES(bin.lock);
  bool put_in_depot(Bin& bin, int bin_index, void* const* slots, size_t n) REQUIRES(bin.lock);
  void* drain_depot(Bin& bin, int bin_index);
  // Returns what is shelved, and spares, to the spans and pages. False: there was nothing.
  bool drain_shelves();
  Span* new_span(int bin, int shard, bool may_grow);
  void note_freed(Span* span, int freed);
  void free_if_empty(int bin_index, Span* span);
  void join_bin(int from, int to);
  void change_group(Bin& from, Bin& to, int bin, Span* span) REQUIRES(from.lock, to.lock);
  bool take_group_over(int from, int to);
  bool may_take_from_groups(int bin) const {
    return most_live_.load(std::memory_order_relaxed) != 0 && bin < kLocalBins;
  }
  bool has_outgrown_load();
  size_t take_from_groups(int bin, void** out, size_t n, int shard);
  bool may_join(const Span& span) const {
    return grain_of(span.slot_size) == Grain::coarse || !pages_.is_coarse(*span.page);
  }
  void list_pending(Bin& bin) REQUIRES(bin.lock) {
    if (bin.has_waiting()) list_waiting(bin);
  }
  void list_waiting(Bin& bin) REQUIRES(bin.lock);
  // Until it is listed. It is in no list, and has free slots; nobody else does the same.
  static void let_wait(Bin& bin, Span* span);
  void list_backlogs();
  // Between two turns with a lock: else who waits for it would find it taken again.
  static void let_others_first();
  void keep_or_free(Bin& bin, Span* span) REQUIRES(bin.lock);
  void free_span(Bin& bin, Span* span) REQUIRES(bin.lock);
  // Returns the blocks of a span that is in no list, and whose slots are all free, to the page.
  void close(Span* span);
  // Whether spans have one slot, and none is listed for longer than its bin's lock is held: each is
  // in use or closed. (Those of a shard may be spares.)
  static bool is_unlisted(int bin, int shard) { return shard == 0 && shape_of_bin(bin).slots == 1; }

  // ----- Shards (shards.cc) -----
  Bin& bin_at(int bin, int shard) { return shard == 0 ? bins_[bin] : shards_.at(shard, bin); }
  // The bin that a span of slots belongs to.
  Bin& home_of(const Span& span) {
    const Span::Home home = span.home_now();
    return bin_at(home.bin, home.shard);
  }
  void open_shard(int bin, int shard);
  // Free slots of other shards and of the bin itself, and their spans with them. Only before a page
  // is taken from the system: where each shard has what it needs, spans would only go round.
  size_t take_from_others(int bin, void** out, size_t n, int shard);
  size_t take_over(int bin, int from, int to, void** out, size_t n);
  void move_span(Bin& from, Bin& to, int shard, Span* span) REQUIRES(from.lock, to.lock);
  // Earns room for one more spare.
  void earn_spare(Bin& bin, int bin_index) REQUIRES(bin.lock);
  bool may_keep(const Bin& bin, int bin_index, int shard) const REQUIRES(bin.lock);
  void keep_spare(Bin& bin, Span* span) REQUIRES(bin.lock);
  void use_spare(Bin& bin, Span* span) REQUIRES(bin.lock);
  bool drain_spares();
  bool settle_shard(int bin, int shard, bool idle);
  void settle_shards();
  size_t taken_of(int bin) const;  // slots
  void set_in_map(const Span& span, Blocks blocks, Span* entry);
  Span* allocate_direct(size_t bytes, size_t alignment, bool sampled, bool grows = false);
  Span* allocate_run(size_t bytes, size_t alignment, PageGroup group, bool sampled);
  Span* new_run(Blocks blocks, uint32_t alignment, PageGroup group, bool opens);
  Span* run_at(const PageHeap::Place& place, Blocks blocks, PageGroup group);
  // A span for slots. sparingly: not in a page from the system while something may be shelved.
  enum class Opens { never, sparingly, always };
  size_t take_from(int bin, void** out, size_t n, Opens opens, int shard);
  size_t take_from_bin(int bin, void** out, size_t n, Opens opens, int shard);
  // A span of one slot for the caller, who need not hold the bin's lock.
  size_t open_unlisted(int bin, void** end, Opens opens);
  size_t take_listed(Bin& bin, void** end, size_t n) REQUIRES(bin.lock);
  bool has_few_holes() const;
  bool may_open_for(Blocks blocks) const;
  // After each growth, without a lock.
  void settle() {
    const bool pages = pages_.has_grown(), direct = direct_.has_grown();  // each forgets it
    if (pages || direct) give_back_for_growth();
  }
  void give_back_for_growth();
  size_t return_beyond_peak();
  bool may_make_room(size_t free, size_t part, size_t vain) const;
  bool may_hide_pages() const;
  size_t free_in_pages() const { return less(held_bytes(), live_bytes()); }
  size_t free_blocks() const { return less(held_bytes(), pages_.used_bytes()); }
  void* empty_depots();
  PageHeap::Place take_blocks(PageGroup group, Blocks blocks, uint32_t alignment, Grain grain,
                              bool may_grow);

  PageSource& system_;
  MetadataArena& arena_;
  SpanMap& map_;
  Bin (&bins_)[kBins];
  BinShards& shards_;
  Shelves& shelves_;
  SpanMapTables map_tables_;
  PageHeap pages_;
  DirectMappings direct_;
  std::atomic<size_t> depot_room_{0};     // the sum over all depots
  std::atomic<bool> has_backlog_{false};  // some bin may have one
  std::atomic<void*> twice_{nullptr};     // a slot that was freed twice, for drain_depots to return
  std::atomic<size_t> most_live_{0};
  std::atomic<bool> joins_{false};  // spans that placement left become those of `unknown`
  // When live_bytes() was looked at last before spans changed their group: what was held, whether
  // those were few holes, and for how many calls that holds.
  std::atomic<size_t> looked_held_{0};
  std::atomic<bool> outgrown_{false};
  std::atomic<uint32_t> looks_{0};
  RecentPeak peak_;  // of backed_bytes()
  std::atomic<bool> wants_caches_{false}, makes_room_{false};
  // How often caches were emptied in this second; and when it was in vain, what was free in pages,
  // and in blocks of them. With half as much again they are emptied once more.
  std::atomic<uint32_t> rooms_made_{0};
  std::atomic<size_t> free_in_vain_{0}, scattered_in_vain_{0};
};

}  // namespace llamalloc
