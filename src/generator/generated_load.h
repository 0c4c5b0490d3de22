// SPDX-License-Identifier: Apache-2.0
// A load as events: contexts allocate at their rates times a wave, objects die by their lifetimes.
//
//   warm-up: as many objects as live on average, one every kWarmUpGap, with what is left of their
//            lives --> arrivals by a Poisson process; an arrival is an object or a batch of them
//
// The same options give the same events, whatever the size of the reads. Stack n + 1 of an event is
// context n; stack 0 is the unknown one.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "generator/context_mix.h"
#include "generator/due_wheel.h"
#include "generator/load_wave.h"
#include "trace/event.h"

namespace llamalloc::generator {

struct LoadOptions {
  LoadWave wave;
  uint64_t events = 10'000'000;
  uint32_t threads = 16;
  double remote_frees = 0.2;  // share of the objects that another thread frees
  bool warm_up = true;        // begin with as many objects as live on average
  uint64_t seed = 1;
};

class GeneratedLoad final : public trace::EventSource {
 public:
  GeneratedLoad(std::vector<Context> contexts, const LoadOptions& options);

  size_t read(std::span<trace::Event> events) override;
  const std::vector<Context>& contexts() const { return contexts_; }
  // Of the events read so far.
  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t peak_live_bytes() const { return peak_live_bytes_; }
  uint64_t objects() const { return next_object_; }

 private:
  static constexpr uint64_t kWarmUpGap = 250;  // nanoseconds
  static constexpr double kTickObjects = 64;   // arrivals a tick, about
  static constexpr uint64_t kBatchGap = 100;
  // An object that grows: how much it is to grow still, and when it dies.
  struct Growth {
    uint64_t death;
    uint32_t stack;
    uint32_t left;
  };

  void next(trace::Event* out);
  void begin_arrival();
  void draw_next_arrival();
  void allocate(trace::Event* out);
  uint64_t draw_death(const Context& context);
  void happen(const Due& due, trace::Event* out);
  void resize(const Due& due, trace::Event* out);
  // Its next growth or its death, as far as it has not been said.
  Due next_of(uint64_t now, const Due& object, const Growth& growth) const;
  uint32_t freeing_thread(uint32_t thread);
  void add_live(uint64_t bytes);

  std::vector<Context> contexts_;
  LoadOptions options_;
  Random random_;
  AliasTable by_arrivals_, by_live_;
  double arrivals_ = 0;  // a second, at a load of 1
  DueWheel wheel_;
  double factor_ = 1;          // of the load, in this tick
  uint64_t next_arrival_ = 0;  // nanoseconds
  uint64_t warm_up_left_ = 0;  // objects
  uint32_t context_ = 0;       // of the current arrival
  uint32_t batch_left_ = 0;    // objects that it still has
  uint32_t batch_thread_ = 0;
  uint64_t batch_death_ = 0;
  uint64_t events_ = 0;
  uint64_t next_object_ = 0;
  uint64_t live_bytes_ = 0;
  uint64_t peak_live_bytes_ = 0;
  std::unordered_map<uint64_t, Growth> growing_;  // by object
};

}  // namespace llamalloc::generator
