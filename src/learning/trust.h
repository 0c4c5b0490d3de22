// SPDX-License-Identifier: Apache-2.0
// Whether predicted lifetimes hold, measured by sampled objects: of a model, or of what was
// learned. The gate (gate.h) gives up placement whose predictions do not.
//
//   freed   a sampled object died: within its prediction, or late
//   alive   once a second: it is still within its prediction, or is older
//
// Late: past four times its class, and in a longer page group. That an object dies early proves
// nothing, since a prediction covers the longest lives of a context: in the first seconds of Redis
// 97 % of the freed bytes died within seconds, of contexts that rightly count as long-lived. What
// has no prediction is in the sums, too; what has a mapping of its own is not, since it pins
// nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lifetime_class.h"
#include "base/units.h"

namespace llamalloc {

class Trust {
 public:
  static constexpr int64_t kGrace = 4;  // a machine may be busy
  // Bytes below which nothing is said.
  static constexpr double kLeast = 32 << 20;
  // Freed bytes above which older ones count half.
  static constexpr double kWindow = 512 << 20;

  // Shares from 0 to 1.
  struct Figures {
    double older = 0;        // of the bytes alive: their prediction failed
    double late = 0;         // of the bytes freed: the same
    bool late_now = false;   // some of these since the last call of age()
    double short_share = 0;  // of all bytes: they were predicted to die soon, and that may be right
    double long_share = 0;   // of the bytes alive: they were predicted to live longer than that
  };

  // Of sampled objects that are alive; bytes: that it stands for.
  class Census {
   public:
    void add(LifetimeClass predicted, Nanos age, double bytes);

   private:
    friend Trust;
    double all_ = 0, older_ = 0, short_ = 0, long_ = 0;
  };

  // A sampled object was freed. By any thread.
  void freed(LifetimeClass predicted, Nanos lifetime, double bytes);
  Figures figures(const Census& alive) const;
  // So that it follows a program that changes: by one thread, about once a second.
  void age();
  void forget();

 private:
  using Bytes = std::atomic<uint64_t>;

  Bytes all_{0}, late_{0}, short_{0};
  std::atomic<bool> late_now_{false};
};

}  // namespace llamalloc
