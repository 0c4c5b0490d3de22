// SPDX-License-Identifier: Apache-2.0
#include "generator/context_mix.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "generator/stack_names.h"

namespace llamalloc::generator {
namespace {

constexpr double kSpread = 2;          // deviation of the logarithm of means within a size
constexpr uint32_t kMostOfASize = 12;  // contexts
constexpr double kBatch = 40;          // objects of a batch, on average

class Mixer {
 public:
  Mixer(const std::vector<SizeRate>& rows, const MixOptions& options)
      : rows_(rows), options_(options), random_(options.seed) {
    for (const SizeRate& row : rows_) total_ += row.rate;
  }

  std::vector<Context> mix() {
    size_t rare = 0;  // where the run of rare rows begins
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (contexts_of(rows_[i].rate) < 1 && group_rate(rare, i + 1) * options_.contexts < total_)
        continue;
      if (contexts_of(rows_[i].rate) < 1) {
        add({rows_.data() + rare, i + 1 - rare});
      } else {
        add({rows_.data() + rare, i - rare});
        add({rows_.data() + i, 1});
      }
      rare = i + 1;
    }
    add({rows_.data() + rare, rows_.size() - rare});
    return std::move(contexts_);
  }

 private:
  uint32_t contexts_of(double rate) const {
    return static_cast<uint32_t>(rate / total_ * options_.contexts);
  }
  double group_rate(size_t from, size_t to) const {
    double sum = 0;
    for (size_t i = from; i < to; ++i) sum += rows_[i].rate;
    return sum;
  }

  void add(std::span<const SizeRate> rows) {
    if (rows.empty()) return;
    double rate = 0, live = 0;
    for (const SizeRate& row : rows) rate += row.rate, live += row.live;
    const uint32_t count = std::clamp(contexts_of(rate), 1u, kMostOfASize);
    std::vector<double> weights(count), factors(count);
    double weight_sum = 0, mean_factor = 0;
    for (uint32_t i = 0; i < count; ++i) {
      weight_sum += weights[i] = 0.2 + random_.exponential();
      factors[i] = count == 1 ? 1 : std::exp(kSpread * random_.normal());
    }
    for (uint32_t i = 0; i < count; ++i) mean_factor += weights[i] / weight_sum * factors[i];
    for (uint32_t i = 0; i < count; ++i) {
      const double own_rate = rate * weights[i] / weight_sum;
      add_one(rows, own_rate, live / rate * factors[i] / mean_factor);
    }
  }

  void add_one(std::span<const SizeRate> rows, double rate, double mean) {
    Context context;
    context.rate = rate;
    context.live = rate * mean;
    context.lifetime = Lifetime(draw_kind(), mean);
    if (random_.chance(options_.batches)) context.batch = kBatch;
    context.resizes = random_.chance(options_.resizing) && rows.back().size <= 64 << 10;
    std::vector<double> rates;
    for (const SizeRate& row : rows) {
      context.sizes.push_back(row.size);
      rates.push_back(row.rate);
    }
    context.size_by_rate = AliasTable(rates);
    const auto number = static_cast<uint32_t>(contexts_.size());
    context.frames = make_frames(context.lifetime, number, random_);
    contexts_.push_back(std::move(context));
  }

  LifetimeKind draw_kind() {
    const double x = random_.unit();
    if (x < options_.heavy) return LifetimeKind::heavy;
    if (x < options_.heavy + options_.sessions) return LifetimeKind::session;
    return random_.chance(0.5) ? LifetimeKind::exponential : LifetimeKind::log_normal;
  }

  const std::vector<SizeRate>& rows_;
  const MixOptions& options_;
  Random random_;
  double total_ = 0;
  std::vector<Context> contexts_;
};

}  // namespace

std::vector<Context> make_contexts(const std::vector<SizeRate>& rows, const MixOptions& options) {
  return Mixer(rows, options).mix();
}

}  // namespace llamalloc::generator
