// SPDX-License-Identifier: Apache-2.0
// BlockBits against an array of bools: every question that it answers, after every change.
//   three bytes a step: first block, how many, set or clear and the alignment to look for
#include "pages/huge_page.h"

#include "base/fuzz_input.h"

namespace llamalloc {
namespace {

struct Naive {
  bool used[kBlocksPerHugePage] = {};

  bool any(uint32_t first, uint32_t n) const {
    for (uint32_t i = first; i < first + n; ++i)
      if (used[i]) return true;
    return false;
  }
  uint32_t count() const {
    uint32_t n = 0;
    for (bool bit : used) n += bit;
    return n;
  }
  uint32_t next(uint32_t from, bool value) const {
    while (from < kBlocksPerHugePage && used[from] != value) ++from;
    return from;
  }
  uint32_t find_clear(uint32_t n, uint32_t alignment) const {
    for (uint32_t i = 0; i + n <= kBlocksPerHugePage; i += alignment)
      if (!any(i, n)) return i;
    return kBlocksPerHugePage;
  }
  uint32_t longest_clear() const {
    uint32_t longest = 0, run = 0;
    for (bool bit : used) longest = (run = bit ? 0 : run + 1) > longest ? run : longest;
    return longest;
  }
};

void compare(const BlockBits& bits, const Naive& naive, uint32_t first, uint32_t n,
             uint32_t alignment) {
  for (uint32_t i = 0; i < kBlocksPerHugePage; ++i) CHECK(bits.test(i) == naive.used[i]);
  CHECK_EQ(bits.count(), naive.count());
  CHECK_EQ(bits.longest_clear(), naive.longest_clear());
  CHECK(bits.any(first, n) == naive.any(first, n));
  CHECK_EQ(bits.next(first, true), naive.next(first, true));
  CHECK_EQ(bits.next(first, false), naive.next(first, false));
  CHECK_EQ(bits.find_clear(n, alignment), naive.find_clear(n, alignment));
}

void run(FuzzInput input) {
  BlockBits bits;
  Naive naive;
  while (input.more()) {
    const uint32_t first = input.below(kBlocksPerHugePage);
    const uint32_t n = 1 + input.below(kBlocksPerHugePage - first);
    const uint8_t how = input.byte();
    const bool value = how & 1;
    value ? bits.set(first, n) : bits.clear(first, n);
    for (uint32_t i = first; i < first + n; ++i) naive.used[i] = value;
    compare(bits, naive, first, n, 1u << (how >> 1) % 8);
  }
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  llamalloc::run({data, size});
  return 0;
}
