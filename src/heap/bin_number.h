// SPDX-License-Identifier: Apache-2.0
// Numbers of bins: (page group, slot size, sampled or not). Bins of the first half are local: a
// thread may cache their slots. Bins of the second half are for samples.
#pragma once

#include <cstddef>

#include "base/lifetime_class.h"
#include "heap/size_class.h"

namespace llamalloc {

inline constexpr int kLocalBins = kPageGroups * kSizeClasses;
inline constexpr int kNoLocalBin = -1;  // for objects that no thread may cache
inline constexpr int kBins = 2 * kLocalBins;

constexpr int bin_of(PageGroup group, int size_class, bool sampled) {
  return ((sampled ? kPageGroups : 0) + static_cast<int>(group)) * kSizeClasses + size_class;
}
constexpr PageGroup group_of_bin(int bin) {
  return static_cast<PageGroup>(bin / kSizeClasses % kPageGroups);
}
constexpr size_t slot_size_of(int bin) {
  return kSizeClassRows[bin % kSizeClasses].size;
}

}  // namespace llamalloc
