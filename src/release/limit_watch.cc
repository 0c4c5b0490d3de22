// SPDX-License-Identifier: Apache-2.0
#include "release/limit_watch.h"

#include <algorithm>

namespace llamalloc {
namespace {

using Level = Pressure::Level;

Level level_of(size_t limit, size_t room) {
  if (room <= limit / 32) return Level::at;
  return room <= limit / 8 ? Level::near : Level::none;
}

// The nearer of two.
void meet(Pressure* nearest, size_t limit, size_t used) {
  const size_t room = less(limit, used);
  const Level level = level_of(limit, room);
  if (room < nearest->room) nearest->room = room;
  const size_t before_full = less(room, limit / 16);
  if (before_full < nearest->before_full) nearest->before_full = before_full;
  if (level > nearest->level) nearest->level = level;
}

}  // namespace

Nanos LimitWatch::rest_for(size_t limit, size_t room) {
  if (limit == SIZE_MAX) return kNoLimit;
  if (room <= limit / 4) return kOften;
  return room <= limit / 2 ? Nanos{kOften.n * 3} : kSeldom;
}

void LimitWatch::take(Nanos now, size_t limit, size_t room, uint32_t pressure, size_t own) {
  read_ = now;
  limit_ = limit;
  room_ = room;
  tightest_ = tightest_room_ = SIZE_MAX;
  own_then_ = own;
  short_of_memory_ = pressure >= kShortOfMemory;
  const Nanos rest = short_of_memory_ ? kOften : rest_for(limit, room);
  next_ = now + rest;
}

void LimitWatch::take_tightest(size_t limit, size_t room) {
  tightest_ = limit;
  tightest_room_ = room;
  next_ = std::min(next_, read_ + rest_for(limit, room));
}

Pressure LimitWatch::pressure(size_t own, size_t soft, size_t hard) const {
  Pressure nearest;
  const size_t more = less(own, own_then_);
  if (limit_ != SIZE_MAX) meet(&nearest, limit_, less(limit_, room_) + more);
  if (tightest_ != SIZE_MAX) meet(&nearest, tightest_, less(tightest_, tightest_room_) + more);
  if (hard != 0) meet(&nearest, hard, own);
  // The soft limit is met when it is reached, not before.
  if (soft != 0 && own >= soft) nearest.level = Level::at;
  if (soft != 0) nearest.room = std::min(nearest.room, less(soft, own));
  nearest.waits = short_of_memory_;
  if (short_of_memory_ && nearest.level == Level::none) nearest.level = Level::near;
  return nearest;
}

}  // namespace llamalloc
