// SPDX-License-Identifier: Apache-2.0
#include "sim/survey.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "base/size_bucket.h"

namespace llamalloc::sim {
namespace {

using trace::Event;
using trace::EventKind;

constexpr uint64_t kLargestObject = uint64_t{1} << 42;
constexpr uint32_t kMostStacks = 1u << 28;
constexpr uint32_t kMostThreads = 1u << 20;
constexpr uint8_t kLargestAlignment = 32;

// What was live over time, in at most 2 x kPoints steps of equal length.
class LoadCurve {
 public:
  struct Point {
    uint64_t time, highest, last;
  };
  void add(uint64_t time, uint64_t live) {
    if (points_.empty() || time >= points_.back().time + step_) {
      if (points_.size() >= 2 * kPoints) halve();
      points_.push_back({time, live, live});
    }
    Point& point = points_.back();
    point.highest = std::max(point.highest, live);
    point.last = live;
  }
  const std::vector<Point>& points() const { return points_; }

 private:
  static constexpr size_t kPoints = 1 << 15;
  void halve() {
    step_ *= 2;
    size_t kept = 0;
    for (const Point& point : points_) {
      if (kept > 0 && point.time < points_[kept - 1].time + step_) {
        points_[kept - 1].highest = std::max(points_[kept - 1].highest, point.highest);
        points_[kept - 1].last = point.last;
      } else {
        points_[kept++] = point;
      }
    }
    points_.resize(kept);
  }
  std::vector<Point> points_;
  uint64_t step_ = 1'000'000;  // nanoseconds
};

uint64_t settle_time(uint64_t duration) {
  return std::clamp<uint64_t>(duration / 50, 2'500'000'000, 6'000'000'000);
}

std::vector<Drop> find_drops(const std::vector<LoadCurve::Point>& points, uint64_t duration) {
  std::vector<Drop> drops;
  const uint64_t settle = settle_time(duration);
  uint64_t peak = 0, peak_time = 0, measure = 0;
  for (const LoadCurve::Point& point : points) {
    if (measure != 0) {
      if (point.time < measure) continue;
      const bool lasted = static_cast<double>(point.last) <= (1 - kDropShare) * double(peak);
      if (lasted) {
        drops.push_back({peak_time, peak, measure});
        peak = 0;
      }
      measure = 0;
    }
    if (point.highest >= peak) peak = point.highest, peak_time = point.time;
    if (static_cast<double>(point.last) <= (1 - kDropShare) * static_cast<double>(peak))
      measure = point.time + settle;
  }
  if (measure != 0 && !points.empty() && points.back().time > peak_time)
    drops.push_back({peak_time, peak, std::min(measure, duration)});
  return drops;
}

class Surveyor {
 public:
  Surveyor(Survey& survey, std::string& error) : survey_(survey), error_(error) {}

  bool take(const Event& event) {
    ++survey_.events;
    if (event.time < survey_.duration) return fail(event, "its time is before that of the last");
    survey_.duration = event.time;
    if (event.thread >= kMostThreads) return fail(event, "its thread number is absurd");
    if (event.thread >= survey_.threads) {
      survey_.threads = event.thread + 1;
      survey_.thread_ends.resize(survey_.threads);
    }
    survey_.thread_ends[event.thread] = survey_.events;
    if (event.kind == EventKind::allocate) return allocate(event);
    const uint32_t slot = slots_.find(event.object);
    if (slot == SlotTable::kNone) return fail(event, "its object is not alive");
    if (event.kind == EventKind::free) return free(event, slot);
    if (event.kind == EventKind::resize) return resize(event, slot);
    return fail(event, "it is of no kind that is known");
  }

  void finish() {
    survey_.objects = slots_.objects();
    survey_.drops = find_drops(curve_.points(), survey_.duration);
    for (uint64_t object = 0; object < slots_.objects(); ++object)
      if (const uint32_t slot = slots_.find(object); slot != SlotTable::kNone)
        alive_.push_back(objects_[slot]);
    std::sort(alive_.begin(), alive_.end(),
              [](const Object& a, const Object& b) { return a.placement < b.placement; });
    for (const Object& object : alive_) survey_.births.push_back(object.born);
  }

 private:
  struct Object {
    uint64_t size;
    uint64_t born;
    uint64_t placement;
  };

  bool allocate(const Event& event) {
    if (event.object != slots_.objects()) return fail(event, "its object is not the next number");
    if (!is_sound(event)) return false;
    const uint32_t slot = slots_.add();
    if (slot >= objects_.size()) objects_.resize(slot + 1u);
    objects_[slot] = {asked(event.size), event.time, place(event)};
    survey_.allocated_bytes += event.size;
    change(event.time, asked(event.size), 0);
    return true;
  }

  bool free(const Event& event, uint32_t slot) {
    ++survey_.frees;
    const Object& object = objects_[slot];
    survey_.lifetimes[object.placement] = event.time - object.born;
    change(event.time, 0, object.size);
    slots_.remove(event.object);
    return true;
  }

  bool resize(const Event& event, uint32_t slot) {
    if (!is_sound(event)) return false;
    ++survey_.resizes;
    Object& object = objects_[slot];
    change(event.time, asked(event.size), object.size);
    if (is_new_placement(object.size, event.size)) {
      survey_.lifetimes[object.placement] = event.time - object.born;
      object.born = event.time;
      object.placement = place(event);
    }
    object.size = asked(event.size);
    return true;
  }

  bool is_sound(const Event& event) {
    if (event.size > kLargestObject) return fail(event, "its size is absurd");
    if (event.stack >= kMostStacks) return fail(event, "its stack number is absurd");
    if (event.alignment_log2 > kLargestAlignment) return fail(event, "its alignment is absurd");
    return true;
  }

  uint64_t place(const Event& event) {
    survey_.contexts.push_back(
        index_.find(event.stack, size_bucket(event.size), survey_.context_table));
    survey_.lifetimes.push_back(kNeverFreed);
    return survey_.lifetimes.size() - 1;
  }

  void change(uint64_t time, uint64_t more, uint64_t less) {
    live_ += more - less;
    if (live_ > survey_.peak_live) survey_.peak_live = live_, survey_.peak_time = time;
    curve_.add(time, live_);
  }

  bool fail(const Event& event, const char* what) {
    char text[200];
    snprintf(text, sizeof(text),
             "event %" PRIu64 " (object %" PRIu64 ", %" PRIu64
             " ns): %s; the trace is damaged: record it again",
             survey_.events, event.object, event.time, what);
    error_ = text;
    return false;
  }

  Survey& survey_;
  std::string& error_;
  SlotTable slots_;
  ContextIndex index_;
  LoadCurve curve_;
  std::vector<Object> objects_;
  std::vector<Object> alive_;
  uint64_t live_ = 0;
};

}  // namespace

bool is_new_placement(uint64_t old_size, uint64_t size) {
  return size_bucket(old_size) != size_bucket(size);
}

uint32_t ContextIndex::find(uint32_t stack, uint64_t bucket, std::vector<Context>& table) {
  if (stack >= last_.size()) last_.resize(stack + 1u);
  Last& last = last_[stack];
  if (last.bucket == bucket) return last.context;
  const uint64_t key = (stack + 1) * 0x9E3779B97F4A7C15ull + bucket * 0xC4CEB9FE1A85EC53ull;
  for (uint64_t probe = key;; probe = probe * 0xFF51AFD7ED558CCDull + 1) {
    const auto [at, added] = index_.try_emplace(probe, static_cast<uint32_t>(table.size()));
    if (added) table.push_back({stack, bucket});
    const Context& found = table[at->second];
    if (found.stack != stack || found.size != bucket) continue;
    last = {bucket, at->second};
    return at->second;
  }
}

bool survey_trace(TraceInput& input, Survey* survey, std::string* error) {
  Surveyor surveyor(*survey, *error);
  const auto source = input.open();
  std::vector<Event> events(4096);
  while (const size_t count = source->read(events))
    for (size_t i = 0; i < count; ++i)
      if (!surveyor.take(events[i])) return false;
  *error = input.fault();
  if (!error->empty()) return false;
  if (survey->events == 0) {
    *error = "there are no events in it; record again, for longer";
    return false;
  }
  surveyor.finish();
  return true;
}

}  // namespace llamalloc::sim
