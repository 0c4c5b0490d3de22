// SPDX-License-Identifier: Apache-2.0
// What happens to objects later, by time: a timing wheel of two levels over a heap for now.
//
//   now    [ heap: the current tick ]           exact order
//   near   [ tick | tick | ... ]  kSlots ticks   unordered until their tick comes
//   far    [ turn | turn | ... ]  kSlots turns   a turn is kSlots ticks
//
// An object's next event is added and taken once: constant time but for the heap of one tick, which
// is small by the choice of the tick (a few dozen entries). What is due beyond the far level is
// dropped: it lives for ever. Invariant: entries of `now` are due before the end of the tick.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace llamalloc::generator {

struct Due {
  uint64_t time;  // nanoseconds
  uint64_t object : 48;
  uint64_t thread : 15;
  uint64_t is_resize : 1;
  uint64_t size;  // bytes
};
static_assert(sizeof(Due) == 24);

class DueWheel {
 public:
  static constexpr uint64_t kSlots = 4096;

  // tick: nanoseconds, above 0.
  explicit DueWheel(uint64_t tick) : tick_(tick), near_(kSlots), far_(kSlots) {}

  uint64_t tick_end() const { return (tick_number_ + 1) * tick_; }

  void add(const Due& due) {
    const uint64_t at = due.time / tick_;
    if (at <= tick_number_) {
      now_.push_back(due);
      std::push_heap(now_.begin(), now_.end(), is_later);
    } else if (at / kSlots == tick_number_ / kSlots) {
      near_[at % kSlots].push_back(due);
    } else if (at / kSlots - tick_number_ / kSlots < kSlots) {
      far_[at / kSlots % kSlots].push_back(due);
    }
  }

  bool has_due_now() const { return !now_.empty(); }
  uint64_t first_time() const { return now_.front().time; }
  Due take_first() {
    const Due first = now_.front();
    std::pop_heap(now_.begin(), now_.end(), is_later);
    now_.pop_back();
    return first;
  }

  // To the next tick; only when nothing is due now.
  void advance() {
    if (++tick_number_ % kSlots == 0) {
      std::vector<Due>& turn = far_[tick_number_ / kSlots % kSlots];
      for (const Due& due : turn) near_[due.time / tick_ % kSlots].push_back(due);
      turn = {};
    }
    now_.swap(near_[tick_number_ % kSlots]);
    std::make_heap(now_.begin(), now_.end(), is_later);
  }

 private:
  static bool is_later(const Due& a, const Due& b) {
    return a.time != b.time ? a.time > b.time : a.object > b.object;
  }

  uint64_t tick_;
  uint64_t tick_number_ = 0;
  std::vector<Due> now_;
  std::vector<std::vector<Due>> near_, far_;
};

}  // namespace llamalloc::generator
