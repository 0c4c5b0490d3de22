// SPDX-License-Identifier: Apache-2.0
// Uses a program's own hint. `operator new(size_t, __hot_cold_t)` says how often an object will be
// touched, from 0 (never) to 255, according to a compiler's memory profile of another run. Cold
// objects mostly live long. The hint has low trust: it counts only if nothing is known about the
// context.
#pragma once

#include "placement/placement.h"

namespace llamalloc {

inline constexpr uint8_t kFirstHot = 128;

constexpr bool is_cold(uint8_t hotness) {
  return hotness < kFirstHot;
}

constexpr PageGroup group_with_hint(const Placement::Choice& choice, uint8_t hotness) {
  if (choice.known || choice.group != PageGroup::unknown || !is_cold(hotness)) return choice.group;
  return group_of(LifetimeClass::never);
}

}  // namespace llamalloc
