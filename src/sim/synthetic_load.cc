// SPDX-License-Identifier: Apache-2.0
#include "sim/synthetic_load.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace llamalloc::sim {
namespace {

using trace::Event;
using trace::EventKind;
using trace::EventSource;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545F4914F6CDD1Dull;
  }
  uint64_t below(uint64_t limit) { return (next() >> 11) % limit; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double exponential(double mean) { return -mean * std::log(1 - uniform()); }

 private:
  uint64_t state_;
};

struct Site {
  uint32_t stack;
  uint64_t size;
  double mean_life;  // seconds; 0: for ever
};

// Events in the order of time: what is made now, and the frees that fall due before.
class Maker : public EventSource {
 public:
  Maker(uint64_t events, uint64_t seed) : random_(seed), left_(events) {}

  size_t read(std::span<Event> events) override {
    size_t count = 0;
    while (count < events.size()) {
      if (at_ == made_.size() && !make_more()) break;
      events[count++] = made_[at_++];
    }
    return count;
  }

 protected:
  virtual void step() = 0;  // advances time_, makes some objects

  uint64_t make(const Site& site, uint32_t thread, uint8_t alignment_log2 = 4) {
    const uint64_t object = objects_++;
    made_.push_back(
        {time_, object, site.size, site.stack, thread, EventKind::allocate, alignment_log2});
    if (site.mean_life > 0) {
      const double life = random_.exponential(site.mean_life);
      deaths_.push({time_ + static_cast<uint64_t>(life * 1e9), object, thread});
    }
    return object;
  }
  void resize(uint64_t object, uint64_t size, uint32_t stack, uint32_t thread) {
    made_.push_back({time_, object, size, stack, thread, EventKind::resize, 4});
  }
  void kill_until(uint64_t time) {
    while (!deaths_.empty() && deaths_.top().time <= time) {
      const Death death = deaths_.top();
      deaths_.pop();
      made_.push_back({death.time, death.object, 0, 0, death.thread, EventKind::free, 0});
    }
  }
  void advance(uint64_t nanoseconds) {
    kill_until(time_ + nanoseconds);
    time_ += nanoseconds;
  }

  Random random_;
  uint64_t time_ = 0;
  uint64_t made_events_ = 0;

 private:
  struct Death {
    uint64_t time;
    uint64_t object;
    uint32_t thread;
    bool operator<(const Death& other) const {
      return other.time < time || (other.time == time && other.object < object);
    }
  };

  bool make_more() {
    made_events_ += made_.size();
    made_.clear();
    at_ = 0;
    if (made_events_ >= left_) return false;
    while (made_.empty()) step();
    return true;
  }

  uint64_t left_;
  uint64_t objects_ = 0;
  std::vector<Event> made_;
  size_t at_ = 0;
  std::priority_queue<Death> deaths_;
};

class TwoClass final : public Maker {
 public:
  using Maker::Maker;
  void step() override {
    for (int i = 0; i < 1000; ++i) make({0, 256, 0.05}, 0);
    make({1, 256, 0}, 0);
    advance(1'000'000);
  }
};

class Waves final : public Maker {
 public:
  using Maker::Maker;
  void step() override {
    static const Site kRequest[] = {{0, 64, 0.002},   {1, 200, 0.01},   {2, 1000, 0.05},
                                    {3, 4096, 0.005}, {4, 20000, 0.02}, {5, 48, 0.3}};
    const double phase = static_cast<double>(time_) * 1e-9 / 10;  // a wave in 10 s
    const double load = 0.5 - 0.5 * std::cos(phase * 6.2831853);
    const auto thread = static_cast<uint32_t>(random_.below(4));
    for (const Site& site : kRequest)
      make({site.stack, 1 + site.size / 2 + random_.below(site.size), site.mean_life}, thread);
    if (load * 20 > random_.uniform() * 20) {
      make({6, 500 + random_.below(1500), 3.0}, thread);  // a connection's buffers
      const uint64_t grows = make({7, 100, 2.0}, thread);
      for (uint64_t size = 200; size <= 3200; size *= 2) resize(grows, size, 8, thread);
    }
    if (random_.below(200) == 0) make({9, 80, 0}, thread);
    if (random_.below(2000) == 0) make({10, 300'000 + random_.below(2'000'000), 0.5}, thread);
    advance(static_cast<uint64_t>(20'000 + 200'000 * (1 - load)));
  }
};

class AtRandom final : public Maker {
 public:
  using Maker::Maker;
  void step() override {
    static const double kLives[] = {0.001, 0.05, 1, 20, 0};
    const auto thread = static_cast<uint32_t>(random_.below(3));
    const uint64_t kind = random_.below(5);
    const uint64_t size = random_.below(uint64_t{1} << random_.below(random_.below(40) ? 14 : 23));
    const uint8_t alignment = random_.below(50) ? 4 : static_cast<uint8_t>(random_.below(17));
    const double life = random_.below(100) || kind < 4 ? kLives[kind] : 0.5;
    const Site site{static_cast<uint32_t>(kind), size, life > 0 || !random_.below(4) ? life : 9};
    const uint64_t object = make(site, thread, alignment);
    if (alignment == 4 && random_.below(8) == 0)
      for (uint64_t n = random_.below(4); n > 0; --n)
        resize(object, random_.below(3 * size + 100), 5, thread);
    advance(random_.below(4'000'000));
  }
};

class SyntheticLoad final : public TraceInput {
 public:
  SyntheticLoad(std::string name, uint64_t events, uint64_t seed)
      : name_(std::move(name)), events_(events), seed_(seed) {}
  std::unique_ptr<EventSource> open() override {
    if (name_ == "two-class") return std::make_unique<TwoClass>(events_, seed_);
    if (name_ == "waves") return std::make_unique<Waves>(events_, seed_);
    if (name_ == "random") return std::make_unique<AtRandom>(events_, seed_);
    return nullptr;
  }
  std::vector<std::string> frames(uint32_t stack) override {
    return {"allocate_" + std::to_string(stack), "serve", "main"};
  }

 private:
  std::string name_;
  uint64_t events_;
  uint64_t seed_;
};

class GivenEvents final : public TraceInput {
 public:
  explicit GivenEvents(std::vector<Event> events) : events_(std::move(events)) {}
  std::unique_ptr<EventSource> open() override { return std::make_unique<Source>(events_); }
  std::vector<std::string> frames(uint32_t stack) override {
    return {"site_" + std::to_string(stack), "main"};
  }

 private:
  class Source final : public EventSource {
   public:
    explicit Source(const std::vector<Event>& events) : events_(events) {}
    size_t read(std::span<Event> events) override {
      const size_t count = std::min(events.size(), events_.size() - at_);
      std::copy_n(events_.begin() + static_cast<ptrdiff_t>(at_), count, events.begin());
      at_ += count;
      return count;
    }

   private:
    const std::vector<Event>& events_;
    size_t at_ = 0;
  };
  std::vector<Event> events_;
};

}  // namespace

std::unique_ptr<TraceInput> make_synthetic_load(const std::string& name, uint64_t events,
                                                uint64_t seed) {
  auto load = std::make_unique<SyntheticLoad>(name, events, seed);
  return load->open() ? std::move(load) : nullptr;
}

std::unique_ptr<TraceInput> make_input(std::vector<Event> events) {
  return std::make_unique<GivenEvents>(std::move(events));
}

}  // namespace llamalloc::sim
