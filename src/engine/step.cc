// SPDX-License-Identifier: Apache-2.0
// The work in the background, and its cadence.
#include "engine/engine.h"

#include <algorithm>
#include <utility>

namespace llamalloc {
namespace {

// Freed direct mappings go back after this. It and its multiples are ends of ReuseGaps: a hold that
// ends within a bucket would seem to keep nothing of it.
constexpr Nanos kDirectDelay = Nanos::millis(125);
constexpr Nanos kTablesDelay = Nanos::seconds(1);  // and so do the tables of pages after them
constexpr size_t kHeldPart = 100;                  // holding longer may cost one in so many bytes
constexpr size_t kFetchesToMeasure = 16;           // pages, until fetches are timed
constexpr int kFetchesTimed = 4;                   // some cost 20 times as much as others
constexpr Nanos kMeasureAgain = Nanos::seconds(5);
constexpr Nanos kLongAway = Nanos::millis(2500);  // a host takes back what is free for two seconds
constexpr Nanos kLeastFetch{100'000}, kMostFetch{20'000'000};
constexpr Nanos kStayAwake = Nanos::seconds(5);
constexpr size_t kMuchOfRoom = 4;  // near a limit: so much of what is left below it
// Pages, until who forks has a turn.
constexpr size_t kReleasedAtOnce = 256;
constexpr Nanos kMoreToRelease = Nanos::millis(1);
constexpr Nanos kLoadWindow = Nanos::seconds(300);  // holds a peak and a trough of the load

}  // namespace

Nanos Engine::release_delay() const {
  return Nanos{static_cast<int64_t>(Options::current(options.release_delay))};
}

void Engine::collect_caches(Nanos now) {
  threads.request_housekeeping(now);
  if (const void* twice = heap.drain_depots()) report_double_free(twice);
}

void Engine::look_at_outlivers(Nanos now, Nanos since) {
  profiler.for_each_live(now, [&](const Profiler::Live& live) {
    const Nanos bound = row(live.predicted).bound;
    if (live.context_key == 0 || bound.n == 0 || live.age <= bound) return;
    // Again in each longer class, as only another page group matters.
    const Nanos before = live.age - since;
    if (class_of_lifetime(live.age) != class_of_lifetime(before))
      placement.observe(live.context_key, live.predicted, live.age, before > bound);
  });
}

Trust::Figures Engine::look_at_trust(Nanos now) {
  Trust::Census alive;
  profiler.for_each_live(now, [&](const Profiler::Live& live) {
    const double bytes = live.weight * static_cast<double>(live.size);
    if (live.size <= kRunMax) alive.add(live.predicted, live.age, bytes);
  });
  const Trust::Figures figures = trust.figures(alive);
  trust.age();
  return figures;
}

void Engine::count_plan() {
  const SkipTracker& skips = plan_.skips();
  counters.set(Stat::release_skipped, skips.skipped());
  counters.set(Stat::release_skipped_right, skips.right());
  counters.set(Stat::release_skipped_wrong, skips.wrong());
  counters.set(Stat::broken_by_rate, plan_.broken_by_rate());
}

size_t Engine::count_breaking(const Breaking& done) {
  if (done.given_back != 0 || done.mend_left) last_break_ = system.now();  // there may be more
  mended_ += done.mended;
  counters.add(Stat::pages_broken, done.pages);
  counters.add(Stat::bytes_broken, done.given_back);
  counters.add(Stat::pages_unbreakable, done.refused);
  counters.add(Stat::pages_mended, done.mended);
  counters.add(Stat::pages_unmendable, done.unmended);
  counters.add(Stat::break_nanos, static_cast<uint64_t>(done.break_time.n));
  counters.add(Stat::mend_nanos, static_cast<uint64_t>(done.mend_time.n));
  return done.given_back;
}

// Pages are broken later than empty ones go back: one in pieces is not as easily had again. Without
// huge pages nothing is lost by it.
void Engine::break_pages(Nanos now) {
  PageHeap& pages = heap.pages();
  const Nanos window{static_cast<int64_t>(Options::current(options.release_window))};
  const bool forced = pressure_.level != Pressure::Level::none;
  const bool at_limit = pressure_.level == Pressure::Level::at;
  const size_t most = plan_.allow(now,
                                  {.rate = Options::current(options.release_rate),
                                   .window = window,
                                   .forecast = Options::current(options.release_forecast.value),
                                   .forced = forced},
                                  pages.demand(), std::exchange(given_back_, 0));
  const bool huge = pages.gets_huge_pages();
  const Nanos rest = at_limit ? Nanos{} : Nanos{2 * release_delay().n};
  const Breaking done =
      pages.break_pages({.before = now - rest,
                         .rest = rest,
                         .rest_of_fuller = forced ? rest : patience_.rest(rest, pages.in_use()),
                         .limit = huge ? most : SIZE_MAX,
                         .now = now,
                         .spared = forced ? now : now + plan_.awaited(),
                         .mend_from = at_limit ? BreakRules::kMendNone
                                      : forced ? BreakRules::kMendNearLimit
                                               : BreakRules::kMendFrom,
                         .works = patience_.works()});
  if (huge) plan_.note(done.given_back, done.left);
  count_breaking(done);
  more_to_break_ = at_limit && done.given_back != 0 && done.left != 0;
  counters.set(Stat::demand_peak, pages.demand().range(now, window).most_used);
  count_plan();
}

// Some of the pages that are needed again and again: the next that are needed find them. Only what
// was away for some time costs what the others do.
void Engine::measure_fetch(Nanos now) {
  PageHeap& pages = heap.pages();
  const size_t refetched = pages.counts().refetched;
  if (refetched - refetched_ < kFetchesToMeasure || now - measured_ < kMeasureAgain) return;
  if (!pages.gets_huge_pages() || pressure_.level != Pressure::Level::none) return;
  int64_t sum = 0, timed = 0;
  for (Nanos one; timed < kFetchesTimed && pages.fetch_one(now - kLongAway, &one); ++timed)
    sum += one.n;
  if (timed == 0) return;
  const Nanos price{std::clamp(sum / timed, kLeastFetch.n, kMostFetch.n)};
  fetch_time_ = measured_.n == 0 ? price : Nanos{(fetch_time_.n + price.n) / 2};
  refetched_ = refetched;
  measured_ = now;
}

void Engine::look_at_holds(Nanos now) {
  const Nanos delay = release_delay();
  const Nanos soon = delay < kDirectDelay ? delay : kDirectDelay;
  const size_t most_extra = backed_bytes() / kHeldPart;
  measure_fetch(now);
  heap.direct().set_fetch_price(fetch_time_);
  const FetchWork work{fetch_time_, system.processor_time()};
  patience_.step(now, work.used, std::exchange(mended_, 0));
  empty_for_ = hold_empty_.step(now, heap.pages().reuse_gaps(), delay, most_extra, work);
  DirectMappings& direct = heap.direct();
  const size_t most_kept = direct.is_owed() ? SIZE_MAX : most_extra;
  mappings_for_ = hold_mappings_.step(now, direct.gaps(), soon, most_kept, work);
  direct.set_in_debt(hold_mappings_.holds_all());
  counters.set(Stat::fetch_nanos, static_cast<uint64_t>(fetch_time_.n));
  const double debt = hold_empty_.debt() + hold_mappings_.debt();
  counters.set(Stat::fetch_debt_nanos, static_cast<uint64_t>(debt * 1e9));
  counters.set(Stat::hold_empty, static_cast<uint64_t>(empty_for_.n));
  counters.set(Stat::hold_mappings, static_cast<uint64_t>(mappings_for_.n));
}

void Engine::look_at_limits(Nanos now) {
  heap.pages().limit_growth(Options::current(options.hard_limit));
  pressure_ = world.pressure(now);
  heap.pages().note_before_full(pressure_.before_full);
  counters.set(Stat::limit_distance, pressure_.room == SIZE_MAX ? 0 : pressure_.room);
  if (pressure_.level == Pressure::Level::none) return;
  counters.add(Stat::limit_releases);
}

// Before the threads are asked to empty their caches: they begin anew with what is said here.
void Engine::look_at_caches(Nanos now) {
  const bool used_up = bypasses_used_up_.exchange(false, std::memory_order_relaxed);
  if (!was_large() || hardening.is_on()) return;
  const bool on = bypass_.step(now, heap.held_bytes(), heap.live_bytes(), used_up);
  const size_t sharing = std::max<size_t>(threads.in_use(), 1);
  const size_t calls = on ? CacheBypass::kCalls / sharing : 0;
  bypasses_.store(static_cast<uint32_t>(calls), std::memory_order_relaxed);
  small_caches_.store(on && bypass_.falls(), std::memory_order_relaxed);
  if (on) counters.add(Stat::caches_bypassed);
}

// What was live at most is forgotten by half in three minutes. It is known when placement begins.
void Engine::note_load(Nanos now, Nanos since) {
  constexpr auto kForgotten = static_cast<double>(Nanos::seconds(256).n);
  const bool on = placement_on.load(std::memory_order_relaxed);
  if (!on && !was_large()) return;
  const double kept = std::max(0.0, 1 - static_cast<double>(since.n) / kForgotten);
  const auto before = static_cast<size_t>(static_cast<double>(most_live_) * kept);
  most_live_ = std::max(heap.live_bytes(), before);
  if (!on) return;
  heap.pages().note_most_used(heap.pages().demand().range(now, kLoadWindow).most_used);
  heap.note_most_live(most_live_);
}

void Engine::keep_house(Nanos now) {
  const Nanos since = std::max(Nanos{}, now - last_house_);
  if (since < kHousekeeping && now >= last_house_) return;  // the clock may have been set back
  last_house_ = now;
  heap.begin_epoch();
  if (now > fills_until_) heap.pages().fill_left_over(false);
  if (has_left_) has_left_ = heap.join_spans();
  look_at_caches(now);
  collect_caches(now);
  counters.add(Stat::promotions, heap.pages().promote_expired(now));
  const size_t used = heap.pages().used_bytes();
  if (std::exchange(level_then_, used) != used) last_change_ = now;
  look_at_limits(now);
  look_at_holds(now);
  break_pages(now);
  note_load(now, since);
  if (predicts()) look_at_outlivers(now, since);
}

// At a limit what is free goes back at once, and near one where it is much beside what is left. A
// service that lives near its limit would else fetch again what it uses each second.
bool Engine::hurries() {
  if (pressure_.level != Pressure::Level::near || pressure_.waits)
    return pressure_.level != Pressure::Level::none;
  const size_t empty = heap.pages().counts().empty_backed * kHugePageSize;
  return empty + heap.direct().kept_bytes() > pressure_.room / kMuchOfRoom;
}

void Engine::give_memory_back(Nanos now) {
  heap.pages().collapse_first_pages();
  const bool hurry = hurries();
  const size_t retain = hurry ? 0 : Options::current(options.retain) / kHugePageSize;
  const Nanos hold = hurry ? Nanos{} : empty_for_;
  const bool at_limit = pressure_.level == Pressure::Level::at;
  const Nanos tables = at_limit ? now : now - std::min(release_delay(), kTablesDelay);
  const size_t released = heap.release(now - hold, retain, tables, kReleasedAtOnce);
  given_back_ += released * kHugePageSize;
  more_to_release_ = released == kReleasedAtOnce;
  if (retain != 0) heap.pages().note_retained(retain);
  heap.direct().release(hurry ? Nanos::max() : now - mappings_for_);
  if (!more_to_break_) return;
  Released more{};  // one round a step: who forks waits for it
  more_to_break_ = release_free_parts(now, &more);
  if (heap.pages().gets_huge_pages()) plan_.note(more.broken_pages, 0);
}

Released Engine::release(size_t keep) {
  const Nanos now = system.now();
  collect_caches(now);
  const size_t before = heap.pages().counts().released_blocks;
  heap.release(now, keep / kHugePageSize);
  const size_t blocks = heap.pages().counts().released_blocks - before;
  return {blocks * kBlockSize, heap.direct().release(Nanos::max()), 0};
}

bool Engine::release_free_parts(Nanos before, Released* released) {
  const bool at_limit = pressure_.level == Pressure::Level::at;
  const bool leaves_fuller = patience_.owes() && !at_limit;
  const Breaking done =
      heap.pages().break_pages({.before = before,
                                .rest_of_fuller = leaves_fuller ? BreakPatience::kForEver : Nanos{},
                                .mend_from = BreakRules::kMendNone});
  released->broken_pages += count_breaking(done);
  return done.given_back != 0 && done.left != 0;
}

// Threads that were asked after a long sleep are idle if they did not answer after another, which
// therefore is no longer than it has to be.
Nanos Engine::next_sleep(Nanos now, bool busy, bool idle_threads) const {
  const Nanos delay{static_cast<int64_t>(options.sleeper_delay)};
  if (idle_threads && delay < kShortSleep) return delay;
  if (busy || now - last_busy_ < kStayAwake) return kShortSleep;
  const bool changes = now - last_change_ < kStayAwake;
  if (changes || pressure_.level != Pressure::Level::none) return kHousekeeping;
  return idle_threads && last_sleep_ == kLongSleep && delay < kLongSleep ? delay : kLongSleep;
}

Nanos Engine::step(Nanos now, bool busy) {
  if (const Nanos rest = answer_call(); rest.n != 0) return rest;
  if (!is_prepared_ && threads.in_use() > 1) prepare_claims();  // before it is urgent
  keep_house(now);
  give_memory_back(now);
  if (more_to_release_) {  // after so short a sleep nobody knows which threads are idle
    last_busy_ = now;
    dozing_.store(false, std::memory_order_relaxed);
    next_step_ = now + kMoreToRelease;
    return kMoreToRelease;
  }
  const bool idle_threads = empty_idle_caches(now);
  const bool may_release = heap.has_empty_pages() || heap.has_backlog();
  if (may_release || last_break_ > last_busy_) last_busy_ = now;
  last_sleep_ = next_sleep(now, busy, idle_threads);
  next_step_ = now + last_sleep_;
  dozing_.store(last_sleep_ > kShortSleep, std::memory_order_relaxed);
  return last_sleep_;
}

}  // namespace llamalloc
