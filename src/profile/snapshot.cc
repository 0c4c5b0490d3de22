// SPDX-License-Identifier: Apache-2.0
#include "profile/snapshot.h"

#include <algorithm>

#include "base/sort.h"

namespace llamalloc {

bool Snapshot::copy(MetadataArena& scratch, LifetimeTable& table, const LiveSamples& live,
                    Nanos now) {
  table.lock().assert_held();
  const uint32_t rows = table.size();
  const size_t room = live.size_locked() + table.recent().size();
  contexts = scratch.make_array<LifetimeStats>(rows + 1);
  survivors = scratch.make_array<Survivor>(room + 1);
  if (contexts == nullptr || survivors == nullptr) return false;
  for (uint32_t i = 0; i < rows; ++i) {
    contexts[i] = table.row(i);
    if (!table.row(i).lifetimes.copy(scratch, &contexts[i].lifetimes)) return false;
  }
  context_count = rows;
  if (!copy_history(scratch, table.history(), now)) return false;
  live.for_each_locked([&](const LiveSample& s) {
    survivors[survivor_count++] = {s.context, s.size, s.weight, now - s.born, s.address};
  });
  return true;
}

bool Snapshot::copy_history(MetadataArena& scratch, const LiveHistory& history, Nanos now) {
  if (!history.is_on()) return true;
  const uint32_t count = history.points() + 1;
  at_peak = scratch.make_array<double>(context_count + 1);
  points = scratch.make_array<LivePoint>(count + 1);
  shares = scratch.make_array<LiveShare>(size_t{count} * LivePoint::kLargest + 1);
  if (at_peak == nullptr || points == nullptr || shares == nullptr) return false;
  peak = history.peak();
  peak_at = history.peak_at();
  for (uint32_t i = 0; i < context_count; ++i) at_peak[i] = history.at_peak(i);
  for (uint32_t p = 0; p < count; ++p) {
    points[p] = p + 1 < count ? history.point(p) : history.point_of(now);
    for (uint32_t i = 0; i < points[p].count; ++i)
      shares[share_count++] = {points[p].largest[i].context, p, points[p].largest[i].bytes};
  }
  point_count = count;
  return true;
}

void Snapshot::undo_teardown(MetadataArena& scratch, const LifetimeTable& table,
                             const LiveSamples& live, Nanos now) {
  table.lock().assert_held();
  const RecentDeaths& recent = table.recent();
  const Nanos start = recent.teardown(live, scratch, now);
  const auto fell = [&](const RecentDeath& death) {
    return death.died > start && death.born() <= start;
  };
  uint32_t killed = 0;
  for (uint32_t i = 0; i < recent.size(); ++i) killed += fell(recent[i]);
  for (uint32_t i = 0; killed >= RecentDeaths::kFewest && i < recent.size(); ++i) {
    const RecentDeath& death = recent[i];
    if (!fell(death)) continue;
    contexts[death.context].remove(death);
    survivors[survivor_count++] = {death.context, death.size, death.weight, start - death.born(),
                                   0};
  }
}

void Snapshot::sort() {
  sort_rows(survivors, survivor_count,
            [](const Survivor& a, const Survivor& b) { return a.context < b.context; });
  sort_rows(shares, share_count, [](const LiveShare& a, const LiveShare& b) {
    return a.context != b.context ? a.context < b.context : a.point < b.point;
  });
}

void Snapshot::keep_since(const Snapshot& before, Nanos age) {
  for (uint32_t i = 0; i < before.context_count; ++i) contexts[i].subtract(before.contexts[i]);
  Survivor* const end = std::remove_if(survivors, survivors + survivor_count,
                                       [age](const Survivor& s) { return s.age > age; });
  survivor_count = static_cast<size_t>(end - survivors);
}

}  // namespace llamalloc
