// SPDX-License-Identifier: Apache-2.0
// Names that a program gives to what its threads do: few, short, each once, never gone.
//
//   text --hash--> slot: atomic id (linear probing) --> text
//
// Finding a known name takes no lock; a new one is added under it. Id 0 is the empty name.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "os/lock.h"

namespace llamalloc {

class TagTable {
 public:
  static constexpr uint32_t kMost = 255;  // names; more of them are all called kOther
  static constexpr size_t kLongest = 63;  // bytes of a name; it is cut there
  static constexpr const char* kOther = "other";

  // The id of a name; other bytes than printable ASCII become '_'. Null and "" are 0.
  uint32_t intern(const char* name);
  // "" for 0.
  const char* text(uint32_t id) const { return texts_[id]; }
  // Ids are below it.
  uint32_t size() const { return count_.load(std::memory_order_acquire); }
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }
  bool is_consistent() const;

 private:
  static constexpr uint32_t kSlots = 512;
  uint32_t find(const char* name, uint32_t* slot) const;
  uint32_t add(const char* name);

  Lock lock_{LockRank::tag_table};
  std::atomic<uint32_t> count_ WRITTEN_UNDER(lock_){1};
  std::atomic<uint16_t> slots_[kSlots] WRITTEN_UNDER(lock_){};  // 0: empty
  char texts_[kMost + 1][kLongest + 1] WRITTEN_UNDER(lock_){};  // once, before the slot is
};

}  // namespace llamalloc
