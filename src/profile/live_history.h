// SPDX-License-Identifier: Apache-2.0
// How many bytes of each context were live when: at the moment when most was live, and along time.
//
//   change(context, +bytes) --> live[context], total --+--> peak: of each context, at the highest
//   change(context, -bytes)                            |    total so far
//                                                      +--> points: total and the largest contexts
//
//   peak     exact, in constant time: a context notes what it held when it first changes after a
//            new peak. What has not changed since holds it still.
//   points   [ p0 | p1 | ... ] at most kPoints, `step` apart. If they are full, every other one
//            goes, and the step doubles. A point is taken by the first change after its time, so
//            an idle program takes none.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "os/arena.h"
#include "profile/chunked_array.h"

namespace llamalloc {

// What one of the largest contexts held at a point.
struct LiveShare {
  uint32_t context;
  uint32_t point;
  double bytes;
};

struct LivePoint {
  static constexpr uint32_t kLargest = 24;

  Nanos at;
  double total;  // bytes of all contexts
  uint32_t count;
  struct {
    uint32_t context;
    float bytes;
  } largest[kLargest];  // [count], descending
};

class LiveHistory {
 public:
  static constexpr uint32_t kPoints = 255;
  static constexpr Nanos kFirstStep = Nanos{20'000'000};

  // Follows live bytes from now on; before that, change() does nothing. False: no memory.
  bool start(MetadataArena& arena);
  bool is_on() const { return points_ != nullptr; }
  // The estimated live bytes of a context change, at `now` or, if that is 0, at the time of the
  // last change. Without memory the context is not followed.
  void change(MetadataArena& arena, uint32_t context, double bytes, Nanos now);
  void clear();

  double peak() const { return peak_; }
  Nanos peak_at() const { return peak_at_; }
  double at_peak(uint32_t context) const;
  double live(uint32_t context) const;
  uint32_t points() const { return count_; }
  const LivePoint& point(uint32_t i) const { return points_[i]; }
  // One of this moment.
  LivePoint point_of(Nanos now) const;
  bool is_consistent() const;

 private:
  struct Sum {
    double live;
    double at_peak;       // defined if noted == peaks_
    uint32_t noted;       // peaks_ at the last change
    uint32_t generation;  // of clear(); of another one all is 0
  };

  using Sums = ChunkedArray<Sum, 8, 8192>;  // as many contexts as LifetimeTable

  Sum* sum_of(MetadataArena& arena, uint32_t context);
  bool knows(uint32_t context) const {
    return context < size() && (*sums_)[context].generation == generation_;
  }
  uint32_t size() const { return sums_ == nullptr ? 0 : sums_->size(); }
  void take_point(Nanos now);
  void thin();

  double total_ = 0;
  double peak_ = 0;
  Nanos peak_at_{};
  Nanos last_{};        // change
  uint32_t peaks_ = 1;  // how often there was a new one
  uint32_t generation_ = 1;
  uint32_t count_ = 0;
  Nanos step_ = kFirstStep;
  Nanos next_{};
  LivePoint* points_ = nullptr;  // [kPoints], or none
  Sums* sums_ = nullptr;         // made when first needed: it is large
};

}  // namespace llamalloc
