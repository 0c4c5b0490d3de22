// SPDX-License-Identifier: Apache-2.0
#include "sim/simulation.h"

#include <algorithm>
#include <tuple>

namespace llamalloc::sim {
namespace {

using trace::Event;
using trace::EventKind;

// Time zero of a trace on the policy's clock, so that "long before" never falls below zero.
constexpr int64_t kStart = 1000'000'000'000;

std::vector<Moment> plan_moments(const Survey& survey, size_t samples) {
  std::vector<Moment> moments;
  const auto add = [&](uint64_t time, MomentKind kind) {
    moments.emplace_back();
    moments.back().time = time;
    moments.back().kind = kind;
  };
  for (size_t i = 0; i < samples; ++i)
    add(static_cast<uint64_t>(static_cast<double>(survey.duration) * static_cast<double>(i + 1) /
                              static_cast<double>(samples)),
        MomentKind::sample);
  add(survey.peak_time, MomentKind::peak);
  for (const Drop& drop : survey.drops) add(drop.time, MomentKind::drop);
  add(survey.duration, MomentKind::end);
  std::sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return std::tie(a.time, a.kind) < std::tie(b.time, b.kind);
  });
  return moments;
}

class Simulation {
 public:
  Simulation(const Survey& survey, const Prediction& prediction, Policy& policy, const Pace& pace,
             Outcome& outcome)
      : survey_(survey), prediction_(prediction), policy_(policy), pace_(pace), outcome_(outcome) {
    objects_.resize(1024);
    if (pace.is_told())
      policy.set_ticks({static_cast<int64_t>(pace.ticks().period)},
                       {static_cast<int64_t>(pace.ticks().first) + kStart -
                        static_cast<int64_t>(pace.ticks().period)});
  }

  bool run(TraceInput& input, const RunOptions& options, std::string* error) {
    outcome_.moments = plan_moments(survey_, options.samples);
    const auto source = input.open();
    std::vector<Event> events(4096);
    uint64_t since_progress = 0;
    while (const size_t count = source->read(events)) {
      for (size_t i = 0; i < count; ++i)
        if (!take(events[i], error)) return false;
      since_progress += count;
      if (options.progress && since_progress >= 4'000'000) {
        since_progress = 0;
        const double all = static_cast<double>(survey_.events);
        options.progress(static_cast<double>(outcome_.events) / all, options.context);
      }
    }
    is_over_ = true;
    while (next_moment_ < outcome_.moments.size()) reach(survey_.duration + 1);
    outcome_.gate = policy_.gate_notes();
    end_releases(options.samples);
    outcome_.acquired = policy_.ledger().acquired() + policy_.direct().acquired();
    return policy_.finish(clock_at(survey_.duration), error);
  }

 private:
  struct Object {
    uint64_t address = kNoAddress;  // of what is dead
    uint64_t size;                  // as asked for, at least 1
    int64_t due;                    // on the policy's clock; after it the object is an outliver
    uint8_t lifetime;
    uint32_t context;  // of its placement
  };

  Nanos clock_at(uint64_t time) const { return {static_cast<int64_t>(pace_.at(time)) + kStart}; }

  // A trace does not tell when a thread ends: its last event has to do.
  bool take(const Event& event, std::string* error) {
    const bool good = act(event, error);
    if (event.thread < survey_.thread_ends.size() &&
        survey_.thread_ends[event.thread] == outcome_.events)
      policy_.end_thread(event.thread);
    return good;
  }

  bool act(const Event& event, std::string* error) {
    ++outcome_.events;
    now_ = clock_at(event.time);
    if (now_ >= next_work() || event.time > next_time()) reach(event.time);
    if (event.kind == EventKind::free) {
      const uint32_t slot = slots_.find(event.object);
      if (slot == SlotTable::kNone) return changed(error);
      Object& object = objects_[slot];
      policy_.free(object.address, object.size, event.thread, now_);
      live_ -= object.size;
      object.address = kNoAddress;
      slots_.remove(event.object);
      return true;
    }
    const bool done = event.kind == EventKind::allocate ? allocate(event) : resize(event);
    return done || changed(error);
  }

  Nanos next_work() const { return pace_.is_told() ? next_visit() : policy_.next_work(last_work_); }

  // Those before later events are not due, whatever the clock shows, and those before this one are.
  Nanos next_visit() const {
    if (next_visit_ == pace_.visits().size()) return Nanos::max();
    const Visit& visit = pace_.visits()[next_visit_];
    const Nanos at{static_cast<int64_t>(visit.at) + kStart};
    if (is_over_) return at;
    if (visit.event >= outcome_.events) return Nanos::max();
    return at < now_ ? at : now_;
  }

  uint64_t next_time() const {
    return next_moment_ < outcome_.moments.size() ? outcome_.moments[next_moment_].time : ~0ull;
  }

  // Everything due before an event at `time`: the policy's background work, and moments.
  void reach(uint64_t time) {
    const Nanos now = clock_at(time);
    while (true) {
      const uint64_t moment = next_time();
      const bool moment_due = moment < time;
      const Nanos limit = moment_due ? clock_at(moment) : now;
      for (Nanos due = next_work(); due <= limit; due = next_work()) {
        policy_.advance(last_work_ = due);
        ++next_visit_;
        note_peak();
      }
      if (!moment_due) return;
      record(outcome_.moments[next_moment_++]);
    }
  }

  // Counts are those of the end, levels the means over the samples.
  void end_releases(size_t samples) {
    const uint64_t realized = outcome_.releases.realized, average = outcome_.releases.average;
    outcome_.releases = policy_.releases();
    outcome_.releases.realized = realized / samples;
    outcome_.releases.average = average / samples;
  }

  void note_releases() {
    const ReleaseReport now = policy_.releases();
    outcome_.releases.realized += now.realized;
    outcome_.releases.average += now.average;
  }

  void note_peak() {
    const uint64_t bytes =
        policy_.ledger().backed_pages() * kHugePageSize + policy_.direct().bytes();
    outcome_.peak_footprint = std::max(outcome_.peak_footprint, bytes);
  }

  bool allocate(const Event& event) {
    if (event.object != slots_.objects()) return false;
    const uint32_t slot = slots_.add();
    if (slot >= objects_.size()) objects_.resize(objects_.size() * 2);
    Object& object = objects_[slot];
    if (!predict(event, &object)) return false;
    object.size = asked(event.size);
    object.address = policy_.allocate(request(event, object));
    if (policy_.learns()) classify(event, policy_.chosen(), &object);
    return placed(object, 0);
  }

  bool resize(const Event& event) {
    const uint32_t slot = slots_.find(event.object);
    if (slot == SlotTable::kNone) return false;
    Object& object = objects_[slot];
    const bool is_placement = is_new_placement(object.size, event.size);
    const auto old_class = static_cast<LifetimeClass>(object.lifetime);
    const uint64_t old_address = object.address;
    if (is_placement && !predict(event, &object)) return false;
    object.address = policy_.resize(object.address, object.size, request(event, object));
    if (is_placement && policy_.learns())
      classify(event, object.address == old_address ? old_class : policy_.chosen(), &object);
    const uint64_t before = object.size;
    object.size = asked(event.size);
    return placed(object, before);
  }

  // A policy that learns says the class afterwards.
  bool predict(const Event& event, Object* object) {
    if (placement_ >= prediction_.classes.size()) return false;
    object->context = survey_.contexts[placement_];
    const auto lifetime = static_cast<LifetimeClass>(prediction_.classes[placement_++]);
    if (!policy_.learns()) classify(event, lifetime, object);
    return true;
  }

  void classify(const Event& event, LifetimeClass lifetime, Object* object) {
    object->lifetime = static_cast<uint8_t>(lifetime);
    const int64_t bound = row(lifetime).bound.n;
    object->due = bound ? now_.n + bound : INT64_MAX;
    ++outcome_.classes[object->lifetime].objects;
    outcome_.classes[object->lifetime].bytes += event.size;
    if (policy_.learns()) outcome_.chosen.push_back(object->lifetime);
  }

  Request request(const Event& event, const Object& object) const {
    return {asked(event.size),    now_,
            event.thread,         static_cast<LifetimeClass>(object.lifetime),
            event.alignment_log2, object.context,
            event.stack};
  }

  bool placed(const Object& object, uint64_t before) {
    live_ += object.size - before;
    if (object.address == kNoAddress) {
      out_of_space_ = true;
      return false;
    }
    if (object.address < kDirectBase) policy_.ledger().touch(object.address, object.size);
    return true;
  }

  bool changed(std::string* error) const {
    *error = out_of_space_ ? "an allocation failed: beyond hard_limit, or beyond 1 TiB of objects"
                           : "the trace changed while it was read";
    return false;
  }

  void record(Moment& moment) {
    moment.live = live_;
    moment.losses = policy_.losses();
    moment.footprint = policy_.footprint(moment.losses.metadata);
    note_peak();
    if (moment.kind != MomentKind::sample)
      walk(moment);
    else
      note_releases();
  }

  struct PageView {
    uint64_t live = 0;
    bool in_time = false;  // holds an object that is no outliver
    std::string blocks;
  };

  void walk(Moment& moment) {
    const int64_t now = clock_at(moment.time).n;
    std::vector<PageView> pages(policy_.ledger().page_count() + 1);
    for (uint32_t slot = 0; slot < slots_.room(); ++slot) {
      const Object& object = objects_[slot];
      if (object.address == kNoAddress) continue;
      ++moment.objects;
      const bool late = object.due < now;
      moment.outlivers += late;
      if (object.address < kDirectBase) show(object, late, pages);
    }
    for (PageView& page : pages) {
      if (page.blocks.empty()) continue;
      if (!page.in_time) {
        ++moment.pinned_pages;
        moment.pinned += page.live < kHugePageSize ? kHugePageSize - page.live : 0;
      }
      ++moment.map_pages;
      if (moment.map.size() < kMapPages) moment.map.push_back(std::move(page.blocks));
    }
  }

  static void show(const Object& object, bool late, std::vector<PageView>& pages) {
    const uint64_t last = object.address + object.size - 1;
    for (uint64_t block = object.address >> kBlockShift; block <= last >> kBlockShift; ++block) {
      PageView& page = pages[block / kBlocksPerHugePage];
      if (page.blocks.empty()) page.blocks.assign(kBlocksPerHugePage, '.');
      char& cell = page.blocks[block % kBlocksPerHugePage];
      const bool was_late = cell >= 'A' && cell <= 'Z';
      const char before = was_late ? static_cast<char>(cell - 'A' + 'a') : cell;
      const char own = static_cast<char>('a' + object.lifetime);
      const char longer = before == '.' || before < own ? own : before;
      cell = late || was_late ? static_cast<char>(longer - 'a' + 'A') : longer;
      page.in_time |= !late;
    }
    pages[object.address >> kHugePageShift].live += object.size;
  }

  const Survey& survey_;
  const Prediction& prediction_;
  Policy& policy_;
  const Pace& pace_;
  Outcome& outcome_;
  SlotTable slots_;
  std::vector<Object> objects_;
  Nanos now_{};
  Nanos last_work_ = clock_at(0);
  size_t next_moment_ = 0;
  size_t next_visit_ = 0;
  size_t placement_ = 0;
  uint64_t live_ = 0;
  bool out_of_space_ = false;
  bool is_over_ = false;
};

}  // namespace

bool simulate(TraceInput& input, const Survey& survey, const Prediction& prediction, Policy& policy,
              const RunOptions& options, Outcome* outcome, std::string* error) {
  return Simulation(survey, prediction, policy, options.pace, *outcome).run(input, options, error);
}

}  // namespace llamalloc::sim
