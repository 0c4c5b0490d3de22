// SPDX-License-Identifier: Apache-2.0
#include "profile/recent_deaths.h"

#include "base/sort.h"

namespace llamalloc {
namespace {

// A birth (bytes > 0) or a death.
struct Change {
  Nanos at;
  double bytes;
};

// Backwards from the end, as long as more was alive not long before: right after the last moment
// when most was; now: it did not fall.
Nanos start_of_fall(const Change* changes, size_t count, double live, Nanos now) {
  double then = live, peak = live, level = live;
  Nanos start = now, level_at = now;
  for (size_t i = 0; i < count && level_at - changes[i].at <= RecentDeaths::kWindow; ++i) {
    then -= changes[i].bytes;
    if (then <= peak) continue;
    peak = then;
    start = changes[i].at - Nanos{1};
    if (level >= RecentDeaths::kFallen * peak) continue;
    level = peak;
    level_at = start;
  }
  return live < RecentDeaths::kCollapsed * peak ? start : now;
}

}  // namespace

Nanos RecentDeaths::teardown(const LiveSamples& samples, MetadataArena& scratch, Nanos now) const {
  Change* const changes = scratch.make_array<Change>(2 * size() + samples.size_locked() + 1);
  if (changes == nullptr) return now;
  size_t count = 0;
  double live = 0;
  for (uint32_t i = 0; i < size(); ++i) {
    const RecentDeath& death = deaths_[i];
    changes[count++] = {death.died, -death.bytes()};
    changes[count++] = {death.born(), death.bytes()};
  }
  samples.for_each_locked([&](const LiveSample& s) {
    live += s.bytes();
    changes[count++] = {s.born, s.bytes()};
  });
  sort_rows(changes, count, [](const Change& a, const Change& b) { return b.at < a.at; });
  return start_of_fall(changes, count, live, now);
}

}  // namespace llamalloc
