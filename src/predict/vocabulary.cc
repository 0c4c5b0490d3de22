// SPDX-License-Identifier: Apache-2.0
#include "predict/vocabulary.h"

#include <bit>
#include <cstring>

namespace llamalloc {
namespace {

constexpr char kUnknown[] = "<unk>";

// FNV-1a, mixed at the end because the low bits select the slot.
template <typename Bytes>
uint32_t hash(const Bytes& bytes) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (uint32_t i = 0; i < bytes.length; ++i)
    h = (h ^ static_cast<unsigned char>(bytes.byte(i))) * 0x100000001B3ull;
  h ^= h >> 32;
  return static_cast<uint32_t>(h * 0xFF51AFD7ED558CCDull >> 32);
}

template <typename A, typename B>
bool equal(const A& a, const B& b) {
  if (a.length != b.length) return false;
  for (uint32_t i = 0; i < a.length; ++i)
    if (a.byte(i) != b.byte(i)) return false;
  return true;
}

uint32_t count_lines(const char* text, size_t bytes) {
  uint32_t lines = 1;
  for (size_t i = 0; i < bytes; ++i) lines += text[i] == '\n';
  return lines;
}

}  // namespace

bool Vocabulary::build(const char* text, size_t bytes, MetadataArena& arena, ErrorText& error) {
  text_ = text;
  size_ = count_lines(text, bytes);
  if (size_ > kMaxVocabulary)
    return error.fail("vocabulary: %u tokens, the limit is %u", size_, kMaxVocabulary);
  const uint32_t slots = std::bit_ceil(2 * size_);
  mask_ = slots - 1;
  starts_ = arena.make_array<uint32_t>(size_ + 1);
  slots_ = arena.make_array<uint32_t>(slots);
  if (starts_ == nullptr || slots_ == nullptr) return error.fail("out of memory");
  return find_lines(bytes, error) && fill_slots(error);
}

bool Vocabulary::find_lines(size_t bytes, ErrorText& error) {
  uint32_t id = 1;
  for (size_t i = 0; i < bytes; ++i)
    if (text_[i] == '\n') starts_[id++] = static_cast<uint32_t>(i + 1);
  starts_[size_] = static_cast<uint32_t>(bytes + 1);
  for (id = 0; id < size_; ++id)
    if (line(id).length == 0) return error.fail("vocabulary: line %u is empty", id);
  if (!equal(line(0), Line{kUnknown, sizeof(kUnknown) - 1}))
    return error.fail("vocabulary: line 0 is not %s", kUnknown);
  return true;
}

bool Vocabulary::fill_slots(ErrorText& error) {
  for (uint32_t id = 0; id < size_; ++id) {
    uint32_t* slot = probe(line(id));
    if (slot == nullptr) return error.fail("vocabulary: too many tokens collide");
    if (*slot != 0) return error.fail("vocabulary: lines %u and %u are equal", *slot - 1, id);
    *slot = id + 1;
  }
  return true;
}

template <typename Bytes>
uint32_t* Vocabulary::probe(const Bytes& bytes) const {
  uint32_t at = hash(bytes) & mask_;
  for (uint32_t probes = 0; probes < kMaxProbes; ++probes, at = (at + 1) & mask_)
    if (slots_[at] == 0 || equal(line(slots_[at] - 1), bytes)) return &slots_[at];
  return nullptr;
}

uint32_t Vocabulary::id(const Token& token) const {
  const uint32_t* slot = probe(token);
  return slot == nullptr || *slot == 0 ? 0 : *slot - 1;
}

}  // namespace llamalloc
