// SPDX-License-Identifier: Apache-2.0
#include "learning/trust.h"

namespace llamalloc {
namespace {

bool is_judged(LifetimeClass predicted) {
  return group_of(predicted) != PageGroup::unknown;
}

bool is_late(LifetimeClass predicted, Nanos lifetime) {
  const Nanos bound = row(predicted).bound;
  return bound.n != 0 && lifetime.n / Trust::kGrace > bound.n &&
         group_of(class_of_lifetime(lifetime)) != group_of(predicted);
}

double share(double part, double whole) {
  return whole < Trust::kLeast ? 0 : part / whole;
}

double value(const std::atomic<uint64_t>& bytes) {
  return static_cast<double>(bytes.load(std::memory_order_relaxed));
}

}  // namespace

void Trust::Census::add(LifetimeClass predicted, Nanos age, double bytes) {
  all_ += bytes;
  if (!is_judged(predicted)) return;
  if (is_late(predicted, age))
    older_ += bytes;
  else if (dies_soon(predicted))
    short_ += bytes;
  else
    long_ += bytes;
}

void Trust::freed(LifetimeClass predicted, Nanos lifetime, double bytes) {
  const auto count = [&](Bytes& sum) {
    sum.fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  };
  count(all_);
  if (!is_judged(predicted)) return;
  if (is_late(predicted, lifetime))
    count(late_), late_now_.store(true, std::memory_order_relaxed);
  else if (dies_soon(predicted))
    count(short_);
}

Trust::Figures Trust::figures(const Census& alive) const {
  const double freed = value(all_);
  return {.older = share(alive.older_, alive.all_),
          .late = share(value(late_), freed),
          .late_now = late_now_.load(std::memory_order_relaxed),
          .short_share = share(value(short_) + alive.short_, freed + alive.all_),
          .long_share = share(alive.long_, alive.all_)};
}

// What other threads add meanwhile is kept.
void Trust::age() {
  late_now_.store(false, std::memory_order_relaxed);
  if (value(all_) < kWindow) return;
  for (Bytes* sum : {&all_, &late_, &short_})
    sum->fetch_sub(sum->load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
}

void Trust::forget() {
  for (Bytes* sum : {&all_, &late_, &short_}) sum->store(0, std::memory_order_relaxed);
}

}  // namespace llamalloc
