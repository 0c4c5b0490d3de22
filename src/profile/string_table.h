// SPDX-License-Identifier: Apache-2.0
// The string table of a profile: each distinct string once, "" first, in order of first use.
// Lives in a writer's scratch arena; one thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "profile/chunked_array.h"
#include "profile/id_index.h"

namespace llamalloc {

class StringTable {
 public:
  explicit StringTable(MetadataArena& arena) : arena_(arena) { id("", 0); }

  // The index of the string; 0 (that of "") if there is no memory, and ok() is then false.
  uint32_t id(const char* text, size_t length) {
    const uint64_t hash = hash_of(text, length);
    const uint32_t known = index_.find(hash, [&](uint32_t i) {
      return strings_[i].length == length && memcmp(strings_[i].text, text, length) == 0;
    });
    return known != IdIndex::kNone ? known : add(hash, text, length);
  }
  uint32_t id(const char* text) { return id(text, strlen(text)); }

  uint32_t size() const { return strings_.size(); }
  const char* text(uint32_t i) const { return strings_[i].text; }
  uint32_t length(uint32_t i) const { return strings_[i].length; }
  bool ok() const { return ok_; }

 private:
  struct String {
    const char* text;  // not 0-terminated
    uint32_t length;
  };

  // FNV-1a.
  static uint64_t hash_of(const char* text, size_t length) {
    uint64_t h = 0xCBF29CE484222325ull;
    for (size_t i = 0; i < length; ++i) h = (h ^ static_cast<uint8_t>(text[i])) * 0x100000001B3ull;
    return h;
  }
  uint32_t add(uint64_t hash, const char* text, size_t length) {
    char* copy = static_cast<char*>(arena_.allocate(length + 1, 1));
    ok_ = ok_ && copy != nullptr && index_.reserve_one(arena_);
    if (!ok_) return 0;
    memcpy(copy, text, length);
    ok_ = strings_.push(arena_, {copy, static_cast<uint32_t>(length)});
    if (!ok_) return 0;
    index_.insert(hash, strings_.size() - 1);
    return strings_.size() - 1;
  }

  MetadataArena& arena_;
  IdIndex index_;
  ChunkedArray<String, 8, 8192> strings_;
  bool ok_ = true;
};

}  // namespace llamalloc
