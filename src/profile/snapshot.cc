// SPDX-License-Identifier: Apache-2.0
#include "profile/snapshot.h"

#include <algorithm>

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
  live.for_each_locked([&](const LiveSample& s) {
    survivors[survivor_count++] = {s.context, s.size, s.weight, now - s.born, s.address};
  });
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

void Snapshot::sort_survivors() {
  std::sort(survivors, survivors + survivor_count,
            [](const Survivor& a, const Survivor& b) { return a.context < b.context; });
}

void Snapshot::keep_since(const Snapshot& before, Nanos age) {
  for (uint32_t i = 0; i < before.context_count; ++i) contexts[i].subtract(before.contexts[i]);
  Survivor* const end = std::remove_if(survivors, survivors + survivor_count,
                                       [age](const Survivor& s) { return s.age > age; });
  survivor_count = static_cast<size_t>(end - survivors);
}

}  // namespace llamalloc
