// SPDX-License-Identifier: Apache-2.0
// From live addresses to what is known of them: open addressing, linear probing, at most half full;
// a removed entry's followers move up, so there are no tombstones.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace llamalloc::trace {

class AddressMap {
 public:
  struct Entry {
    uint64_t key_plus_1;  // address in units of 16; 0: empty
    uint64_t object;
  };
  static constexpr uint64_t kNone = ~uint64_t{0};

  AddressMap() : entries_(1024) {}

  void prefetch(uint64_t key) const { __builtin_prefetch(&entries_[home(key)], 1); }

  // The object at the address before, or kNone.
  uint64_t put(uint64_t key, uint64_t object) {
    if (2 * (used_ + 1) > entries_.size()) grow();
    uint64_t i = home(key);
    for (; entries_[i].key_plus_1 != 0; i = next(i))
      if (entries_[i].key_plus_1 == key + 1) return std::exchange(entries_[i].object, object);
    entries_[i] = {key + 1, object};
    ++used_;
    return kNone;
  }
  // Removes; kNone if nothing was there.
  uint64_t take(uint64_t key) {
    uint64_t i = home(key);
    for (; entries_[i].key_plus_1 != key + 1; i = next(i))
      if (entries_[i].key_plus_1 == 0) return kNone;
    const uint64_t object = entries_[i].object;
    close_gap(i);
    --used_;
    return object;
  }
  uint64_t size() const { return used_; }
  void clear() {
    entries_.assign(1024, Entry{});
    bits_ = 10;
    used_ = 0;
  }

 private:
  uint64_t home(uint64_t key) const { return key * 0x9E3779B97F4A7C15ull >> (64 - bits_); }
  uint64_t next(uint64_t i) const { return (i + 1) & (entries_.size() - 1); }
  void close_gap(uint64_t gap) {
    for (uint64_t i = next(gap); entries_[i].key_plus_1 != 0; i = next(i)) {
      const uint64_t wanted = home(entries_[i].key_plus_1 - 1);
      const uint64_t mask = entries_.size() - 1;
      if (((i - wanted) & mask) < ((i - gap) & mask)) continue;
      entries_[gap] = entries_[i];
      gap = i;
    }
    entries_[gap].key_plus_1 = 0;
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    ++bits_;
    for (const Entry& entry : old) {
      if (entry.key_plus_1 == 0) continue;
      uint64_t i = home(entry.key_plus_1 - 1);
      while (entries_[i].key_plus_1 != 0) i = next(i);
      entries_[i] = entry;
    }
  }

  std::vector<Entry> entries_;
  unsigned bits_ = 10;  // entries_.size() == 1 << bits_
  uint64_t used_ = 0;
};

}  // namespace llamalloc::trace
