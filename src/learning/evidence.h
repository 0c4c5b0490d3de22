// SPDX-License-Identifier: Apache-2.0
// What samples say of how long the objects of a context live, and the class that follows.
//
//   deaths[c]  samples that died at an age of class c        1.0 --.
//   young[c]   samples alive at an age of class c                  '--.      S, after each class:
//   elders     those that have lived long                     tail ....'--.. product of 1 - deaths
//   /
//                                                                            at risk
//
// The estimate is that of Kaplan and Meier (1958); who is alive leaves the sample at its age
// without dying. There is a least number of samples: a wrong short class pins pages, a wrong long
// one costs little. The trainer has a twin for what state files hold
// (python/llamalloc/learning/evidence.py). Profiles count by finer buckets, and may have seen the
// end of the program: for them its rule is another one, with the same tail (labels.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/lifetime_class.h"
#include "base/units.h"

namespace llamalloc {

struct Evidence {
  uint16_t deaths[kTimedClasses] = {};
  uint16_t young[kTimedClasses] = {};
  uint16_t elders = 0;

  uint32_t samples() const;
  uint32_t died() const;
  // Where a count would exceed what it can hold, all are halved first. True: they were.
  bool add(const Evidence& other);
  void take_away(const Evidence& other);  // not below zero
  // Half of each count, so many times, with `more` added first: less than 2 to the `times`.
  void halve(int times = 1, uint32_t more = 0);
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// So many samples before objects are taken for short-lived, or for long-lived.
inline constexpr uint32_t kEnoughShort = 32;
inline constexpr uint32_t kEnoughLong = 2;
// The share of objects that may outlive their class (research: a huge page holds about 5,000 small
// objects). Fewer samples than its inverse cannot show it: then none may.
inline constexpr double kTail = 1e-4;

struct Verdict {
  bool decided = false;  // false: too few samples, which may all the same have died soon
  LifetimeClass lifetime = LifetimeClass::mixed;
  bool seems_short() const { return !decided && dies_soon(lifetime); }
};
Verdict verdict_of(const Evidence& evidence);

// Whether, as far as is seen, objects outlive what dies soon: enough samples did, and nearly all.
bool lives_long(const Evidence& evidence);

// Whether callers whose objects, of such a size, are of two classes are worth telling apart. It
// takes a look at the callers in each allocation. Where both die soon, that pays for large objects
// alone: it costs as much for a small one, and a few of the large ones pin a page. (The largest
// have mappings of their own.)
inline constexpr uint64_t kWorthALook = kBlockSize;
bool pays_to_tell_apart(LifetimeClass a, LifetimeClass b, uint64_t size);

// The longest class in which a sample died or is alive.
LifetimeClass longest_seen(const Evidence& evidence);

// Whether objects live shorter now than all evidence together says: enough died since, and these
// and all that are alive say so. The groups of pages count; classes within one differ by chance.
inline constexpr uint32_t kEnoughToFade = 128;
bool lives_shorter(const Evidence& before, const Evidence& now);

}  // namespace llamalloc
