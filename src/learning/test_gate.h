// SPDX-License-Identifier: Apache-2.0
// A gate beside loads that go up and down.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "learning/gate.h"

namespace llamalloc {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr int kHour = 3600;
inline constexpr int kDay = 24 * kHour;

// Pinned bytes by the peak.
struct Pins {
  double high, low;
};

// A load that goes up and down, and what placement makes of it.
struct Load {
  size_t peak = 1024 * kMiB;
  double depth = 0.005;     // live in a trough, by the peak
  int high = 10, low = 10;  // seconds
  int fall = 0;             // of the low ones: until the trough is reached
  Pins blind{0.05, 0.9};
  Pins placed{0.06, 0.1};
  double short_share = 0.95;
  double long_share = 0.9;
  double noise = 0;
  double parted = 1;  // as samples tell, if they saw so much of the peak
  double seen = 0;
  double time = 0;  // of the processor's
};

// A gate beside loads that follow each other.
class Server {
 public:
  explicit Server(const GateKept& kept = {}) : gate(kept) {}

  void run(const Load& load, int seconds) {
    for (int i = 0; i < seconds; ++i) {
      const int fallen = i % (load.high + load.low) - load.high + 1;
      const double low = fallen <= 0 ? 0 : fallen >= load.fall ? 1 : double(fallen) / load.fall;
      const double shake = 1 + load.noise * (2 * uniform_(random_) - 1);
      const Pins& pins = gate.is_on() ? load.placed : load.blind;
      const auto peak = static_cast<double>(load.peak);
      const double live = (1 + low * (load.depth - 1)) * peak * shake;
      const double pinned = (pins.high + low * (pins.low - pins.high)) * peak;
      const double held = live + pinned * shake;
      feed({static_cast<size_t>(held), static_cast<size_t>(live), load.short_share, load.long_share,
            0, 0, load.parted, load.seen * peak, load.time, load.time});
    }
  }
  void feed(const GateFigures& figures) {
    const bool before = gate.is_on();
    now = now + Nanos::seconds(1);
    if (gate.step(now, figures) == before) return;
    ++switches;
    if (!before) turned_on = now;
  }
  std::string sentence() const {
    char text[Gate::kSentence];
    gate.describe(text, sizeof(text));
    return text;
  }

  Gate gate;
  Nanos now = Nanos::seconds(1000);
  int switches = 0;
  Nanos turned_on{};

 private:
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> uniform_{0, 1};
};

inline Load useless() {
  Load load;
  load.placed = {0.2, 1.2};
  return load;
}
inline Load without_gain() {
  Load load;
  load.placed = load.blind;
  return load;
}
inline Load steady() {
  Load load;
  load.low = 0;
  load.blind.high = 0.6;
  return load;
}
// The run after one that saw the load's first trough: it places from the start.
inline Server next_run(const Load& load) {
  Server first;
  first.run(load, 20);
  EXPECT_EQ(first.gate.kept().verdict, GateVerdict::on_trial);
  return Server(first.gate.kept());
}
inline GateKept kept(GateVerdict verdict, uint8_t reversals = 0) {
  return {verdict, reversals, {3, 50, 900, 5, 100000}, {3, 60, 100, 5, 20000}};
}

}  // namespace llamalloc
