// SPDX-License-Identifier: Apache-2.0
#include "learning/learner_rows.h"

#include <algorithm>
#include <bit>

namespace llamalloc {
namespace {

constexpr Nanos kElder = Nanos::seconds(3);
constexpr int64_t kElderShare = 5;  // of the run: one over this
// At most, however long the run: a page of `session` that holds such an object is promoted.
constexpr Nanos kElderMost = Nanos::seconds(200);
constexpr uint32_t kRowsALock = 256;

uint16_t clamp(uint32_t count) {
  return count > UINT16_MAX ? UINT16_MAX : static_cast<uint16_t>(count);
}

// Until the count fits.
int halvings(uint32_t count) {
  return count > UINT16_MAX ? std::bit_width(count) - 16 : 0;
}

}  // namespace

// Counts of deaths first, then ages: what dies in between is seen in neither, or young.
bool LearnerRows::gather(Profiler& profiler, uint32_t most, MetadataArena& scratch, Nanos now,
                         Nanos began) {
  count = std::min(profiler.contexts().size(), most);
  row = scratch.make_array<LearnerRow>(count);
  if (row == nullptr) return false;
  count_deaths(profiler.contexts());
  const int64_t share = (now - began).n / kElderShare;
  count_ages(profiler, now, Nanos{std::clamp(share, kElder.n, kElderMost.n)});
  for (uint32_t i = 0; i < count; ++i) row[i].take_in_ages();
  return true;
}

void LearnerRows::count_deaths(LifetimeTable& table) {
  for (uint32_t i = 0; i < count;) {
    LockGuard guard(table.lock());
    for (const uint32_t stop = i + kRowsALock; i < stop && i < count; ++i) {
      LearnerRow& in = row[i];
      in.stack = table.stack_of(i);
      in.bucket = table.bucket_of(i);
      in.chance = i * 0x9E3779B9u;
      if (table.is_empty(i)) continue;
      const LifetimeStats& stats = table.row(i);
      std::copy_n(stats.firsts, kTimedClasses, in.firsts.deaths);
      in.shift = halvings(*std::max_element(stats.deaths, stats.deaths + kTimedClasses));
      for (int c = 0; c < kTimedClasses; ++c)
        in.evidence.deaths[c] = static_cast<uint16_t>(stats.deaths[c] >> in.shift),
        in.earlier.deaths[c] = static_cast<uint16_t>(stats.earlier[c] >> in.shift);
    }
  }
}

void LearnerRows::count_ages(Profiler& profiler, Nanos now, Nanos elder) {
  profiler.for_each_live(now, [&](const Profiler::Live& sample) {
    const double bytes = sample.weight * static_cast<double>(sample.size);
    live += bytes;
    if (sample.context >= count) return;
    LearnerRow& in = row[sample.context];
    ++in.alive;
    in.live += bytes;
    const auto age = static_cast<int>(class_of_lifetime(sample.age));
    if (!sample.first) {
      ++in.young[age];
      in.elders += sample.age >= elder;
      return;
    }
    in.firsts.young[age] = clamp(in.firsts.young[age] + 1u);
    if (sample.age >= elder) in.firsts.elders = clamp(in.firsts.elders + 1u);
  });
}

// Deaths were divided to fit; now these and the ages are.
void LearnerRow::take_in_ages() {
  const uint32_t most = std::max(elders, *std::max_element(young, young + kTimedClasses));
  const int more = std::max(0, halvings(most) - shift);
  shift += more;
  evidence.halve(more);
  earlier.halve(more);
  for (int c = 0; c < kTimedClasses; ++c)
    evidence.young[c] = static_cast<uint16_t>(young[c] >> shift);
  evidence.elders = static_cast<uint16_t>(elders >> shift);
  has_firsts = evidence.samples() < std::max(kEnoughShort, firsts.samples());
  if (has_firsts) evidence.add(firsts);
}

}  // namespace llamalloc
