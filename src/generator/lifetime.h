// SPDX-License-Identifier: Apache-2.0
// How long the objects of one context live.
//
//   exponential  no memory: any moment is as likely as any other
//   log_normal   most near the middle, a moderate tail (deviation 1 of the logarithm)
//   heavy        nearly all short, one in kOneInStays living kStaysLonger times as long
//   session      to the end of the wave of load in which it was born, and a little more
#pragma once

#include <cmath>

#include "generator/random.h"

namespace llamalloc::generator {

enum class LifetimeKind { exponential, log_normal, heavy, session };

class Lifetime {
 public:
  static constexpr double kOneInStays = 1000;
  static constexpr double kStaysLonger = 300;

  Lifetime() = default;
  // mean: seconds, of all kinds but session.
  Lifetime(LifetimeKind kind, double mean) : kind_(kind), mean_(mean) {}

  LifetimeKind kind() const { return kind_; }
  double mean() const { return mean_; }

  // Seconds from birth to death. Session: what the wave lasts still is to be added.
  double draw(Random& random) const {
    switch (kind_) {
      case LifetimeKind::exponential:
        return mean_ * random.exponential();
      case LifetimeKind::log_normal:
        return mean_ * std::exp(random.normal() - 0.5);
      case LifetimeKind::heavy:
        return body() * random.exponential() * (random.chance(1 / kOneInStays) ? kStaysLonger : 1);
      case LifetimeKind::session:
        break;
    }
    return 0;
  }
  // Seconds that an object still lives which is met alive in a steady state: long lives are met
  // more often (length-biased), and a random part of one is over.
  double draw_residual(Random& random) const {
    switch (kind_) {
      case LifetimeKind::log_normal:
        return mean_ * std::exp(random.normal() + 0.5) * random.unit();
      case LifetimeKind::heavy: {
        const double stay = kStaysLonger / (kOneInStays - 1 + kStaysLonger);
        return body() * random.exponential() * (random.chance(stay) ? kStaysLonger : 1);
      }
      default:
        return draw(random);
    }
  }

 private:
  // The mean of the short ones, such that the mean of all is mean_.
  double body() const { return mean_ * kOneInStays / (kOneInStays - 1 + kStaysLonger); }

  LifetimeKind kind_ = LifetimeKind::exponential;
  double mean_ = 0;
};

}  // namespace llamalloc::generator
