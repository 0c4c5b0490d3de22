// SPDX-License-Identifier: Apache-2.0
#include "generator/generated_load.h"

#include <algorithm>
#include <cmath>

namespace llamalloc::generator {
namespace {

using trace::Event;
using trace::EventKind;

double seconds_of(uint64_t nanos) {
  return static_cast<double>(nanos) * 1e-9;
}

uint64_t nanos_of(double seconds) {
  constexpr double kLongest = 1e9;  // thirty years: for ever
  return static_cast<uint64_t>(std::min(seconds, kLongest) * 1e9);
}

AliasTable weighted_by(const std::vector<Context>& contexts, double (*weight)(const Context&)) {
  std::vector<double> weights;
  for (const Context& context : contexts) weights.push_back(weight(context));
  return AliasTable(weights);
}

double sum_of(const std::vector<Context>& contexts, double (*weight)(const Context&)) {
  double sum = 0;
  for (const Context& context : contexts) sum += weight(context);
  return sum;
}

double arrivals_of(const Context& context) {
  return context.rate / context.batch;
}
double live_of(const Context& context) {
  return context.lifetime.kind() == LifetimeKind::session ? 0 : context.live;
}

}  // namespace

GeneratedLoad::GeneratedLoad(std::vector<Context> contexts, const LoadOptions& options)
    : contexts_(std::move(contexts)),
      options_(options),
      random_(options.seed),
      by_arrivals_(weighted_by(contexts_, arrivals_of)),
      arrivals_(sum_of(contexts_, arrivals_of)),
      wheel_(std::max<uint64_t>(
          1, nanos_of(kTickObjects / sum_of(contexts_, [](const Context& c) { return c.rate; })))) {
  factor_ = options_.wave.at(0);
  const double live = sum_of(contexts_, live_of);
  if (options_.warm_up && live >= 1) {
    by_live_ = weighted_by(contexts_, live_of);
    warm_up_left_ = static_cast<uint64_t>(live);
  } else {
    draw_next_arrival();
  }
}

size_t GeneratedLoad::read(std::span<Event> events) {
  size_t n = 0;
  for (; n < events.size() && events_ < options_.events; ++n, ++events_) next(&events[n]);
  return n;
}

void GeneratedLoad::next(Event* out) {
  for (;;) {
    if (wheel_.has_due_now() && wheel_.first_time() <= next_arrival_)
      return happen(wheel_.take_first(), out);
    if (next_arrival_ < wheel_.tick_end()) return allocate(out);
    wheel_.advance();
    factor_ = options_.wave.at(seconds_of(wheel_.tick_end()));
  }
}

// What arrives at next_arrival_.
void GeneratedLoad::begin_arrival() {
  batch_thread_ = random_.below(options_.threads);
  if (warm_up_left_ > 0) {
    --warm_up_left_;
    context_ = by_live_.draw(random_);
    batch_left_ = 1;
    batch_death_ = next_arrival_ + nanos_of(contexts_[context_].lifetime.draw_residual(random_));
    return;
  }
  context_ = by_arrivals_.draw(random_);
  const Context& context = contexts_[context_];
  batch_left_ = 1;
  if (context.batch > 1) {
    batch_left_ += static_cast<uint32_t>((context.batch - 0.5) * random_.exponential());
  }
  batch_death_ = draw_death(context);
}

uint64_t GeneratedLoad::draw_death(const Context& context) {
  if (context.lifetime.kind() != LifetimeKind::session)
    return next_arrival_ + nanos_of(context.lifetime.draw(random_));
  const double end = options_.wave.end_of_period(seconds_of(next_arrival_));
  return nanos_of(end + 0.02 * options_.wave.period * random_.exponential());
}

void GeneratedLoad::draw_next_arrival() {
  next_arrival_ += 1 + nanos_of(random_.exponential() / (arrivals_ * factor_));
}

void GeneratedLoad::allocate(Event* out) {
  if (batch_left_ == 0) begin_arrival();
  const Context& context = contexts_[context_];
  const uint64_t object = next_object_++;
  const uint64_t size = context.draw_size(random_);
  *out = {next_arrival_, object, size, context_ + 1, batch_thread_, EventKind::allocate, 4};
  add_live(size);
  Due due{batch_death_, object, freeing_thread(batch_thread_), 0, size};
  if (context.resizes) {
    const Growth growth{batch_death_, context_ + 1, 1 + random_.below(3)};
    growing_.emplace(object, growth);
    due = next_of(next_arrival_, due, growth);
  }
  wheel_.add(due);
  if (--batch_left_ > 0) {
    next_arrival_ += kBatchGap;
    batch_death_ = std::max(batch_death_, next_arrival_);
  } else if (warm_up_left_ > 0) {
    next_arrival_ += kWarmUpGap;
  } else {
    draw_next_arrival();
  }
}

void GeneratedLoad::happen(const Due& due, Event* out) {
  if (due.is_resize) return resize(due, out);
  live_bytes_ -= due.size;
  *out = {due.time, due.object, 0, 0, static_cast<uint32_t>(due.thread), EventKind::free, 0};
}

// Doubles it.
void GeneratedLoad::resize(const Due& due, Event* out) {
  const auto found = growing_.find(due.object);
  Growth& growth = found->second;
  --growth.left;
  *out = {
      due.time,          due.object, due.size * 2, growth.stack, static_cast<uint32_t>(due.thread),
      EventKind::resize, 4};
  add_live(due.size);
  Due next = due;
  next.size *= 2;
  wheel_.add(next_of(due.time, next, growth));
  if (growth.left == 0) growing_.erase(found);
}

Due GeneratedLoad::next_of(uint64_t now, const Due& object, const Growth& growth) const {
  Due next = object;
  next.is_resize = growth.left > 0;
  next.time = next.is_resize ? now + (growth.death - now) / 4 : growth.death;
  return next;
}

uint32_t GeneratedLoad::freeing_thread(uint32_t thread) {
  return random_.chance(options_.remote_frees) ? random_.below(options_.threads) : thread;
}

void GeneratedLoad::add_live(uint64_t bytes) {
  live_bytes_ += bytes;
  peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
}

}  // namespace llamalloc::generator
