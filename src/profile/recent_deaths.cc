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

// Backwards from the end: right after the last moment when most was alive; now: it did not fall.
Nanos start_of_fall(const Change* changes, size_t count, double live, Nanos now) {
  double peak = live, then = live;
  Nanos start = now;
  for (size_t i = 0; i < count; ++i) {
    then -= changes[i].bytes;
    if (then <= peak) continue;
    peak = then;
    start = changes[i].at - Nanos{1};
  }
  return live < RecentDeaths::kCollapsed * peak ? start : now;
}

}  // namespace

Nanos RecentDeaths::teardown(const LiveSamples& samples, MetadataArena& scratch, Nanos now) const {
  Change* const changes = scratch.make_array<Change>(2 * size() + samples.size_locked() + 1);
  if (changes == nullptr) return now;
  const Nanos since = now - kWindow;
  size_t count = 0;
  double live = 0;
  for (uint32_t i = 0; i < size(); ++i) {
    const RecentDeath& death = deaths_[i];
    if (death.died >= since) changes[count++] = {death.died, -death.bytes()};
    if (death.died >= since && death.born() >= since)
      changes[count++] = {death.born(), death.bytes()};
  }
  samples.for_each_locked([&](const LiveSample& s) {
    const double bytes = s.weight * static_cast<double>(s.size);
    live += bytes;
    if (s.born >= since) changes[count++] = {s.born, bytes};
  });
  sort_rows(changes, count, [](const Change& a, const Change& b) { return b.at < a.at; });
  return start_of_fall(changes, count, live, now);
}

}  // namespace llamalloc
