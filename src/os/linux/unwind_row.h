// SPDX-License-Identifier: Apache-2.0
// The row of a pc packed into one word, and the process-wide cache of rows.
//
//   63..52  rbx is saved at anchor + 8 * this (signed 12 bits), if bit 33
//   51..40  rbp likewise, if bit 32
//   39..34  zero
//   33, 32  rbx is saved, rbp is saved
//   31..4   CFA = base + this (signed 28 bits)
//   3       the anchor is rbp, not the CFA
//   2..0    RowKind
//
// The return address is at CFA - 8. Whatever does not fit is kGeneral: interpreted each time.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/linux/eh_frame.h"

namespace llamalloc {

enum class RowKind : uint8_t {
  kMissing,    // not in the cache
  kFromSp,     // CFA = sp + offset
  kFromRbp,    // CFA = rbp + offset
  kFromRbx,    // CFA = rbx + offset
  kRealigned,  // CFA = the word at rbp + offset
  kOutermost,  // the return address is undefined
  kGeneral,
};

class Row {
 public:
  constexpr Row() = default;
  constexpr explicit Row(uint64_t word) : word_(word) {}

  constexpr uint64_t word() const { return word_; }
  constexpr RowKind kind() const { return static_cast<RowKind>(word_ & 7); }
  constexpr bool anchored_at_rbp() const { return word_ & 8; }
  constexpr int64_t offset() const {
    return static_cast<int32_t>(static_cast<uint32_t>(word_)) >> 4;
  }
  constexpr bool saves_rbp() const { return word_ >> 32 & 1; }
  constexpr bool saves_rbx() const { return word_ >> 33 & 1; }
  // Bytes from the anchor.
  constexpr int64_t rbp() const { return (static_cast<int64_t>(word_ << 12) >> 52) * 8; }
  constexpr int64_t rbx() const { return (static_cast<int64_t>(word_) >> 52) * 8; }

 private:
  uint64_t word_ = 0;
};

Row pack_row(const FrameRules& rules, bool signal_frame);

// A lossy table without locks. An entry is two words, key ^ row and row. A reader that sees words
// of two writers computes a wrong key and so finds nothing. Therefore every access is relaxed and
// pairs with nothing. Keys are 64 bits: pc ^ the identity of its module ^ the generation.
class RowCache {
 public:
  Row find(uint64_t key) const {
    const Entry& entry = entries_[slot(key)];
    const uint64_t row = entry.row.load(std::memory_order_relaxed);
    const uint64_t checked = entry.key_xor_row.load(std::memory_order_relaxed);
    return (checked ^ row) == key ? Row(row) : Row();
  }
  void put(uint64_t key, Row row) {
    Entry& entry = entries_[slot(key)];
    entry.key_xor_row.store(key ^ row.word(), std::memory_order_relaxed);
    entry.row.store(row.word(), std::memory_order_relaxed);
  }

 private:
  static constexpr int kBits = 14;
  struct Entry {
    std::atomic<uint64_t> key_xor_row{0};
    std::atomic<uint64_t> row{0};
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(Entry) == 16);

  static uint64_t slot(uint64_t key) { return key * 0x9E3779B97F4A7C15ull >> (64 - kBits); }

  Entry entries_[1 << kBits] = {};  // 256 KiB of zero pages, backed as they are used
};

}  // namespace llamalloc
