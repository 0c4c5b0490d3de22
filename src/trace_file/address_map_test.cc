// SPDX-License-Identifier: Apache-2.0
#include "trace_file/address_map.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace llamalloc::trace {
namespace {

TEST(AddressMap, AgreesWithTheStandardOne) {
  AddressMap map;
  std::unordered_map<uint64_t, uint64_t> naive;
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < 300'000; ++i) {
    const uint64_t key = random() % (i < 150'000 ? 20'000 : 500) << random() % 3 * 20;
    const auto known = naive.find(key);
    const uint64_t before = known == naive.end() ? AddressMap::kNone : known->second;
    if (random() % 2) {
      ASSERT_EQ(map.put(key, i), before);
      naive[key] = i;
    } else {
      ASSERT_EQ(map.take(key), before);
      naive.erase(key);
    }
    ASSERT_EQ(map.size(), naive.size());
  }
}

}  // namespace
}  // namespace llamalloc::trace
