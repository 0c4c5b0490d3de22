// SPDX-License-Identifier: Apache-2.0
// Objects above 1 MiB, and smaller ones that are no run: each has its own mapping.
//
//   allocate --> in use --> freed last --> freed before and kept, newest first --> unmapped
//                              |              |
//                              +--------------+--> serves the next request of about its size;
//                                                  resized, the next one of another size
//
// A freed mapping that is resized keeps the memory that it has: the system need not take that back,
// zero it and hand it out again. Its huge pages move whole. What it grows by reads as zero.
//
// Where fetching is felt, kept mappings are pieces: of a larger one the rest is kept in its turn,
// and a new one gets the huge pages of several smaller ones. A request below 4 MiB takes a larger
// one as it is; what it did not ask for is spare, and goes back later (spare_room.cc).
//
// The mapping freed last is always kept. Older ones are kept only while they are small compared
// with the memory in use. Where fetching costs too much of the time, some are kept in any case,
// and not for requests of less than half their size. The worker unmaps kept mappings after a while.
// The mapping freed last is stored in one atomic word (its record and its size in small pages), so
// taking it needs no lock. A lock guards the others; it is never held during a system call.
#pragma once

#include <atomic>
#include <cstddef>

#include "heap/fetch_debt.h"
#include "heap/gone_memory.h"
#include "heap/recent_peak.h"
#include "heap/span.h"
#include "heap/span_map.h"
#include "os/arena.h"
#include "os/lock.h"
#include "pages/page_heap.h"

namespace llamalloc {

inline constexpr size_t kKeptMappingMax = size_t{128} << 20;  // bytes; larger ones go at once
inline constexpr int kKeptMappings = 16;
inline constexpr int kOwedMappings = 256;               // where fetching is owed for
inline constexpr size_t kAlwaysKept = size_t{1} << 20;  // small ones, of far alignments: any number
// Kept mappings have at most 1/kKeptPart of the memory in use. Where buffers of 5 to 25 MiB replace
// each other, a sixth takes half the time of a sixteenth: nearer sizes grow by less, and what
// they grow by the system has to zero. It costs image processing 0.7 % of memory on average.
inline constexpr size_t kKeptPart = 6;
// Where fetching is owed for (FetchDebt), they may have kOwedKept, or as much as lets what is in
// use and kept reach the peak of the mappings of late: what a burst frees, the next one needs.
// Where the debt lasts, all are kept. But no more than a part where nobody looked for kWatched. And
// where the heap grows beyond its peak, they go only while
// they have more than 1/kSparePart of the mappings in use, or more than kMostSpare: buffers of
// several sizes in turn need one of each size in hand.
inline constexpr size_t kOwedKept = size_t{32} << 20;
inline constexpr Nanos kWatched = Nanos::seconds(3);
inline constexpr size_t kSparePart = 8;
inline constexpr size_t kMostSpare = size_t{8} << 20;
// From this size on requests are joined; for one huge page the move costs what it saves.
inline constexpr size_t kLeastJoined = 2 * kHugePageSize;
// Smaller ones take a larger kept mapping as it is, of up to kMostTimes their size, where fetching
// is felt. All together have at most kMostUnasked more than they asked for, or one part in
// kSparePart of the mappings in use.
inline constexpr size_t kMostTimes = 4;
inline constexpr size_t kMostUnasked = size_t{16} << 20;
// What realloc makes larger gets room to grow by one part in kGrowthPart, at most a huge page. It
// has no memory until it is touched.
inline constexpr size_t kGrowthPart = 8;
// Where more are in use, new ones lie close to each other, and the system makes one mapping of
// them: a process has 65,530 of those.
inline constexpr size_t kApartMappings = 16384;

// Of the mapping of such an object. So no two of them share an entry of the map.
constexpr size_t direct_size(size_t bytes) {
  return bytes <= kBlockSize ? kBlockSize : align_up(bytes, kSmallPage);
}

class DirectMappings {
 public:
  constexpr DirectMappings(PageSource& system, MetadataArena& arena, SpanMap& map, PageHeap& pages)
      : system_(system), arena_(arena), map_(map), pages_(pages) {}

  // alignment: a power of two; null: no memory. grows: it is one mapping for the system, which
  // older kernels do not resize otherwise; but one that is reused may not be.
  Span* allocate(size_t bytes, size_t alignment, bool sampled, bool grows = false);
  // The caller has already removed its address from the map.
  void deallocate(Span* span);
  // deallocate() of one that has_room_for().
  void keep_as_last(Span* span);
  // Whether deallocate() is a single atomic operation.
  bool has_room_for(const Span* span) const {
    return span->bytes <= kKeptMappingMax && span->spare == 0 &&
           last_.load(std::memory_order_relaxed) == 0;
  }
  // The mapping freed last, if it has about that size (whole pages) and the alignment of a new one.
  // Its address is in no map.
  Span* take_last(size_t bytes) {
    uintptr_t last = last_.load(std::memory_order_relaxed);
    if (!fits(bytes_of(last), bytes) || (last & kAligned) == 0) return nullptr;
    // Pairs with the release in deallocate(): what the last owner wrote to the record.
    const bool mine = last_.compare_exchange_strong(last, 0, std::memory_order_acquire,
                                                    std::memory_order_relaxed);
    if (!mine) return nullptr;
    span_of(last)->fresh = span_of(last)->grown = false;
    return span_of(last);
  }
  // Returns the object's address, which may have changed; null: not possible, nothing changed.
  // What grows gets room to grow further.
  void* resize(Span* span, size_t bytes);
  // Unmaps mappings freed up to `before`. Unmaps the one freed last only if nothing was freed since
  // the previous call. Spare memory of those in use goes back when nothing is owed. Returns the
  // bytes.
  size_t release(Nanos before);
  // Unmaps kept mappings, the oldest first, until that many bytes are gone or at most `spared`
  // kept.
  size_t release_now(size_t bytes, size_t spared = 0);
  // Whether a mapping was made or grew since this was last asked.
  bool has_grown() {
    return grown_.load(std::memory_order_relaxed) &&
           grown_.exchange(false, std::memory_order_relaxed);
  }

  // Hints, read without the lock. kept: freed mappings that still have memory.
  size_t bytes() const {
    return less(bytes_.load(std::memory_order_relaxed),
                bytes_of(last_.load(std::memory_order_relaxed)));
  }
  size_t count() const {
    return less(count_.load(std::memory_order_relaxed), last_.load(std::memory_order_relaxed) != 0);
  }
  size_t spare_bytes() const { return spare_.load(std::memory_order_relaxed); }
  size_t kept_bytes() const {
    return kept_bytes_.load(std::memory_order_relaxed) +
           bytes_of(last_.load(std::memory_order_relaxed));
  }
  // Whether any has memory that nobody asked for. Not what the system refused to take (it is locked
  // in memory), until other comes.
  bool has_to_release() const {
    return (kept_bytes_.load(std::memory_order_relaxed) | last_.load(std::memory_order_relaxed) |
            to_trim_.load(std::memory_order_relaxed)) != 0;
  }
  // How long freed mappings waited until one of their size was needed again. What was freed last
  // and taken right away does not count.
  const ReuseGaps& gaps() const { return gaps_; }
  // In a child after fork: what another thread was giving back goes back.
  void finish_trimming();
  // Whether there may be room for such a mapping once all that is free has gone back.
  bool could_map(size_t bytes);
  // How much of kept_bytes() is to stay where the heap grows beyond its peak.
  size_t spared();
  // Whether objects that grow get room to grow further; the system may count it as committed.
  void give_room(bool yes) { gives_room_.store(yes, std::memory_order_relaxed); }
  // Processor time that fetching 2 MiB takes.
  void set_fetch_price(Nanos price) {
    LockGuard guard(lock_);
    debt_.set_price(price);
  }
  // Whether more is owed than this room counts (release/hold_time.h).
  void set_in_debt(bool in_debt) {
    LockGuard guard(lock_);
    debt_.set_lasts(in_debt);
  }
  // As RecentPeak::next, by whoever gives back what is kept too long.
  void begin_epoch() {
    peak_.next(bytes());
    looked_.store(system_.now_coarse().n, std::memory_order_relaxed);
  }
  bool is_owed() {
    LockGuard guard(lock_);
    return debt_.is_owed(system_.now_coarse());
  }
  // As PageHeap::publish. direct.last: in its upper 16 bits, small pages that are kept and not
  // used.
  template <typename F>
  void publish(F&& f) const {
    f("direct.bytes", &bytes_);
    f("direct.kept_bytes", &kept_bytes_);
    f("direct.last", &last_);
  }
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }
  bool is_consistent();

 private:
  // [ small pages | span | kAligned ]
  static constexpr int kPagesShift = 48;
  static constexpr uintptr_t kSpanMask = (uintptr_t{1} << kPagesShift) - alignof(Span);
  static constexpr uintptr_t kAligned = 1;
  static_assert(kKeptMappingMax / kSmallPage < size_t{1} << (64 - kPagesShift));
  static uintptr_t word_of(Span* span) {
    const auto base = reinterpret_cast<uintptr_t>(span->base);
    return reinterpret_cast<uintptr_t>(span) | span->bytes / kSmallPage << kPagesShift |
           (base % natural_alignment(span->bytes) == 0 ? kAligned : 0);
  }
  static Span* span_of(uintptr_t word) { return reinterpret_cast<Span*>(word & kSpanMask); }
  static size_t bytes_of(uintptr_t word) { return (word >> kPagesShift) * kSmallPage; }
  // By which a mapping of that size is cut.
  static size_t page_of(size_t bytes) {
    return bytes >= kHugePageSize ? kHugePageSize : kSmallPage;
  }
  // The alignment of a new mapping; one that the kernel moved may be aligned to a small page.
  static size_t natural_alignment(size_t bytes) {
    return bytes >= kHugePageSize ? kHugePageSize : kBlockSize;
  }
  // Whether `have` bytes hold `want` and waste at most an eighth.
  static bool fits(size_t have, size_t want) { return have >= want && have - want <= want / 8; }
  // Whether a mapping of `have` bytes is worth resizing.
  static bool is_near(size_t have, size_t want, size_t factor) {
    return page_of(have) == page_of(want) && have >= want / factor && have / factor <= want;
  }

  static Span* take_fitting(Span** link, size_t bytes, size_t alignment);
  void retire_last(Nanos freed) REQUIRES(lock_);
  Span* unlink(Span** link) REQUIRES(lock_);
  Span* take_larger(size_t bytes, size_t alignment);
  size_t room_for_spare() REQUIRES(lock_);
  void list_spare(Span* span) REQUIRES(lock_);
  void unlist_spare(Span* span) REQUIRES(lock_);
  bool take_in_spare(Span* span, bool freed);
  bool remap_with_room(Span* span, size_t bytes);
  bool grow_within(Span* span, size_t bytes);
  size_t trim_one(bool forced);
  size_t trim(Span* span);
  Span* next_to_trim(bool forced);
  Span* join(size_t bytes, size_t alignment);
  Span* take_piece(size_t least, bool largest);
  void cut_off(Span* span, size_t bytes);
  size_t fill_from_kept(Span* span);
  void note_fetched(size_t bytes);
  void count_fetched(size_t bytes, Nanos now) REQUIRES(lock_);
  void count_gone(size_t bytes, int64_t freed, Nanos now) REQUIRES(lock_);
  Span* reuse(size_t bytes, size_t alignment);
  Span* reshape(size_t bytes, size_t alignment);
  Span* take_nearest(size_t bytes);
  bool fit_and_count(Span* span, size_t bytes, size_t alignment);
  size_t fit_to(Span* span, size_t bytes);
  bool move_to(Span* span, size_t bytes);
  bool makes_room(size_t bytes);
  bool change_size(Span* span, size_t bytes);
  Span* make(size_t bytes, size_t alignment);
  void* map(size_t bytes, size_t alignment);
  Span* new_record(size_t bytes);
  Span* take_record() REQUIRES(lock_);
  void free_record(Span* span) REQUIRES(lock_);
  void keep_older(Span* span);
  size_t most_kept(Nanos now) REQUIRES(lock_);
  void keep(Span* span) REQUIRES(lock_);
  Span* take_oldest(Nanos before) REQUIRES(lock_);
  size_t unmap_oldest(Nanos before, size_t spared = 0);
  bool retire_last_now();
  void unmap(Span* span);
  void note_gap(int64_t freed, size_t bytes);
  // The caller holds the lock, so these need no atomic read-modify-write.
  static void add(std::atomic<size_t>& counter, size_t change) {
    counter.store(counter.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  void count_in(size_t bytes) REQUIRES(lock_) {
    add(bytes_, bytes), add(count_, 1);
    peak_.raise(this->bytes());
    tell_pages();
  }
  void count_out(size_t bytes) REQUIRES(lock_) {
    add(bytes_, size_t{0} - bytes), add(count_, size_t{0} - 1);
    tell_pages();
  }
  // For the limit that both have in common.
  void tell_pages() {
    pages_.set_mapped_elsewhere(bytes_.load(std::memory_order_relaxed) +
                                kept_bytes_.load(std::memory_order_relaxed));
  }

  PageSource& system_;
  MetadataArena& arena_;
  SpanMap& map_;
  PageHeap& pages_;
  std::atomic<uintptr_t> last_{0};  // what was freed last
  std::atomic<uint32_t> times_freed_{0};
  Lock lock_{LockRank::direct};
  uint32_t seen_freed_ GUARDED_BY(lock_) = 0;  // by the last release()
  // Each list is linked by next_direct.
  Span* kept_ GUARDED_BY(lock_) = nullptr;     // newest first
  Span* refused_ GUARDED_BY(lock_) = nullptr;  // freed, but the system would not unmap them
  Span* free_records_ GUARDED_BY(lock_) = nullptr;
  Span* spared_ GUARDED_BY(lock_) = nullptr;  // in use, with spare memory
  Span** spared_end_ GUARDED_BY(lock_) = nullptr;
  size_t spared_count_ GUARDED_BY(lock_) = 0;
  size_t refused_trims_ GUARDED_BY(lock_) = 0;  // in a row
  Span* trimming_ GUARDED_BY(lock_) = nullptr;  // whose spare memory goes back right now
  bool trimmed_is_freed_ GUARDED_BY(lock_) = false;
  int kept_count_ GUARDED_BY(lock_) = 0;
  GoneMemory gone_ GUARDED_BY(lock_);
  FetchDebt debt_ GUARDED_BY(lock_);
  RecentPeak peak_;                 // of bytes()
  std::atomic<int64_t> looked_{0};  // when the last epoch began
  ReuseGaps gaps_;
  std::atomic<size_t> bytes_{0};  // in use or freed last
  std::atomic<size_t> count_{0};
  std::atomic<size_t> kept_bytes_{0};
  std::atomic<size_t> spare_{0};      // of bytes_: memory that nobody asked for
  std::atomic<uint32_t> to_trim_{0};  // not 0: there is spare memory that nobody refused to take
  std::atomic<bool> grown_{false};
  std::atomic<bool> gives_room_{true};
};

}  // namespace llamalloc
