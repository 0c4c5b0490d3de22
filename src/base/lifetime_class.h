// SPDX-License-Identifier: Apache-2.0
// Lifetime classes and page groups, from contracts/lifetime_classes.def.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace llamalloc {

enum class LifetimeClass : uint8_t {
#define LIFETIME_CLASS(name, bound, group, meaning) name,
#include "contracts/lifetime_classes.def"
};

enum class PageGroup : uint8_t {
#define PAGE_GROUP(name, deadline, meaning) name,
#include "contracts/lifetime_classes.def"
};

inline constexpr int kLifetimeClasses = 0
#define LIFETIME_CLASS(name, bound, group, meaning) +1
#include "contracts/lifetime_classes.def"
    ;
inline constexpr int kPageGroups = 0
#define PAGE_GROUP(name, deadline, meaning) +1
#include "contracts/lifetime_classes.def"
    ;

// le_10ms to gt_1000s, which time alone tells apart.
inline constexpr int kTimedClasses = static_cast<int>(LifetimeClass::gt_1000s) + 1;

struct LifetimeClassRow {
  const char* name;
  Nanos bound;  // longest lifetime of the class; 0: none
  PageGroup group;
};
struct PageGroupRow {
  const char* name;
  Nanos deadline;  // 0: none
};

inline constexpr LifetimeClassRow kLifetimeClassRows[] = {
#define LIFETIME_CLASS(name, bound, group, meaning) {#name, {bound}, PageGroup::group},
#include "contracts/lifetime_classes.def"
};
inline constexpr PageGroupRow kPageGroupRows[] = {
#define PAGE_GROUP(name, deadline, meaning) {#name, {deadline}},
#include "contracts/lifetime_classes.def"
};

constexpr const LifetimeClassRow& row(LifetimeClass c) {
  return kLifetimeClassRows[static_cast<int>(c)];
}
constexpr const PageGroupRow& row(PageGroup g) {
  return kPageGroupRows[static_cast<int>(g)];
}
constexpr PageGroup group_of(LifetimeClass c) {
  return row(c).group;
}

// Whether its pages have a deadline of seconds.
constexpr bool dies_soon(LifetimeClass c) {
  return group_of(c) == PageGroup::transient || group_of(c) == PageGroup::brief;
}

// The shortest timed class that holds a lifetime (gt_1000s for what exceeds every bound).
constexpr LifetimeClass class_of_lifetime(Nanos lifetime) {
  int c = 0;
  while (kLifetimeClassRows[c].bound.n != 0 && lifetime > kLifetimeClassRows[c].bound) ++c;
  return static_cast<LifetimeClass>(c);
}

}  // namespace llamalloc
