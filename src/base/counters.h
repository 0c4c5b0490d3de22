// SPDX-License-Identifier: Apache-2.0
// The counters of contracts/stats.def. Rows of kind `counter` are added to as things happen; what
// other rooms count or a walk over the heap finds is filled in when somebody asks
// (telemetry/telemetry.h).
#pragma once

#include <atomic>
#include <cstdint>

namespace llamalloc {

enum class Stat : uint8_t {
#define STAT(name, unit, kind, help) name,
#include "contracts/stats.def"
};
inline constexpr int kStats = 0
#define STAT(name, unit, kind, help) +1
#include "contracts/stats.def"
    ;

struct StatRow {
  const char* name;
  const char* unit;
  const char* help;
};
inline constexpr StatRow kStatRows[] = {
#define STAT(name, unit, kind, help) {#name, #unit, help},
#include "contracts/stats.def"
};

class Counters {
 public:
  void add(Stat stat, uint64_t n = 1) {
    values_[static_cast<int>(stat)].fetch_add(n, std::memory_order_relaxed);
  }
  // A gauge that one thread writes.
  void set(Stat stat, uint64_t n) {
    values_[static_cast<int>(stat)].store(n, std::memory_order_relaxed);
  }
  uint64_t get(Stat stat) const {
    return values_[static_cast<int>(stat)].load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> values_[kStats]{};
};

}  // namespace llamalloc
