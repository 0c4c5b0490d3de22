// SPDX-License-Identifier: Apache-2.0
#include "profile/tag_table.h"

namespace llamalloc {
namespace {

uint64_t hash_of(const char* text) {  // FNV-1a
  uint64_t h = 0xCBF29CE484222325ull;
  for (; *text != 0; ++text) h = (h ^ static_cast<uint8_t>(*text)) * 0x100000001B3ull;
  return h ^ h >> 32;
}

void copy_printable(const char* name, char* out) {
  size_t n = 0;
  for (; n < TagTable::kLongest && name[n] != 0; ++n)
    out[n] = name[n] >= 0x20 && name[n] <= 0x7E ? name[n] : '_';
  out[n] = 0;
}

}  // namespace

uint32_t TagTable::find(const char* name, uint32_t* slot) const {
  uint32_t i = static_cast<uint32_t>(hash_of(name)) % kSlots;
  // Pairs with the release in add(): who sees the id sees its text.
  for (uint32_t id; (id = slots_[i].load(std::memory_order_acquire)) != 0; i = (i + 1) % kSlots)
    if (strcmp(texts_[id], name) == 0) return id;
  *slot = i;
  return 0;
}

uint32_t TagTable::intern(const char* name) {
  if (name == nullptr || name[0] == 0) return 0;
  char text[kLongest + 1];
  copy_printable(name, text);
  uint32_t slot;
  const uint32_t known = find(text, &slot);
  return known != 0 ? known : add(text);
}

uint32_t TagTable::add(const char* name) {
  LockGuard guard(lock_);
  const uint32_t id = count_.load(std::memory_order_relaxed);
  uint32_t slot;
  if (const uint32_t known = find(name, &slot)) return known;
  if (id > kMost) return kMost;
  const char* text = id == kMost ? kOther : name;
  memcpy(texts_[id], text, strlen(text) + 1);
  count_.store(id + 1, std::memory_order_release);
  if (id < kMost) slots_[slot].store(static_cast<uint16_t>(id), std::memory_order_release);
  return id;
}

bool TagTable::is_consistent() const {
  uint32_t used = 0;
  for (const auto& slot : slots_) used += slot.load(std::memory_order_relaxed) != 0;
  return used == size() - 1 || (size() == kMost + 1 && used == kMost - 1);
}

}  // namespace llamalloc
