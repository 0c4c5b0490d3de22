// SPDX-License-Identifier: Apache-2.0
// What a program's own hint is worth: `operator new(size_t, __hot_cold_t)` says how often an object
// will be touched, from 0 (never) to 255, as a compiler's memory profile saw it in another run.
// Cold objects mostly are kept for long. A hint of low trust: it counts only where nothing is
// known of the context.
#pragma once

#include "policy/placement.h"

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
