// SPDX-License-Identifier: Apache-2.0
#include "learning/stay_prior.h"

#include <algorithm>

namespace llamalloc {
namespace {

// x to the n-th; libm is no part of the library.
double power(double x, uint32_t n) {
  double result = 1;
  for (; n != 0; n /= 2, x *= x)
    if (n % 2 != 0) result *= x;
  return result;
}

struct Counts {
  uint32_t died = 0;    // within `brief`
  uint32_t stayed = 0;  // outlived it
};

constexpr double kLittle = 0.01;
constexpr uint32_t kMostCounted = 1000;  // more say the same, and powers get too small

// What is younger than that says nothing yet.
Counts counts_of(const Evidence& context) {
  Counts counts;
  for (int c = 0; c < kTimedClasses; ++c) {
    const bool soon = dies_soon(static_cast<LifetimeClass>(c));
    (soon ? counts.died : counts.stayed) += context.deaths[c];
    if (!soon) counts.stayed += context.young[c];
  }
  return counts;
}

}  // namespace

void StayPrior::begin() {
  for (double& sum : sums_) sum = kAtLeast;
  sums_[0] = kNothing;
}

bool StayPrior::weigh(const Evidence& context, double (&likely)[kCount]) const {
  Counts counts = counts_of(context);
  const uint32_t samples = counts.died + counts.stayed;
  if (samples == 0) return false;
  if (samples > kMostCounted) {
    const uint64_t stayed = uint64_t{counts.stayed} * kMostCounted;
    counts.stayed = static_cast<uint32_t>((stayed + samples - 1) / samples);
    counts.died = kMostCounted - counts.stayed;
  }
  double all = 0;
  for (int j = 0; j < kCount; ++j) {
    likely[j] = weights_[j] * power(kShares[j], counts.stayed) * power(1 - kShares[j], counts.died);
    all += likely[j];
  }
  for (double& one : likely) one = all > 0 ? one / all : 0;
  return all > 0;
}

void StayPrior::add(const Evidence& context) {
  double likely[kCount];
  if (!weigh(context, likely)) return;
  for (int j = 0; j < kCount; ++j) sums_[j] += likely[j];
}

void StayPrior::add_to(Family* family, const Evidence& context) const {
  double likely[kCount];
  if (!weigh(context, likely)) return;
  for (int j = 0; j < kCount; ++j) family->sums[j] += static_cast<float>(likely[j]);
}

bool StayPrior::end() {
  double moved = 0, contexts = 0;
  for (int j = 0; j < kCount; ++j) {
    moved += std::max(sums_[j] - weights_[j], weights_[j] - sums_[j]);
    contexts += weights_[j] = sums_[j];
  }
  return moved > kLittle * contexts;
}

double StayPrior::hidden(uint32_t samples, const Family& family) const {
  double contexts = 0, stays = 0, all = 0;
  for (const double weight : weights_) contexts += weight;
  for (int j = 0; j < kCount; ++j) {
    const double weight = weights_[j] / contexts * kOfAll + static_cast<double>(family.sums[j]);
    const double likely = weight * power(1 - kShares[j], samples);
    stays += likely * kShares[j];
    all += likely;
  }
  return stays / all;
}

bool StayPrior::is_sure(const Evidence& context, const Family& family) const {
  const Counts counts = counts_of(context);
  if (counts.stayed != 0) return counts.stayed <= kTail * (counts.died + counts.stayed);
  return hidden(counts.died, family) <= kMostHidden;
}

}  // namespace llamalloc
