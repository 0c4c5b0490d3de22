// SPDX-License-Identifier: Apache-2.0
// Token -> id: the lines of the model file's `vocabulary` tensor behind a hash table.
//
//   text    <unk>\nmain\nzmalloc...          (borrowed)
//   starts  [0, 6, 11, ...]                  where line i begins; one more for the end
//   slots   open addressing, linear probing: id + 1, or 0 for none; at most half full
//
// Invariant: id(line i) == i for every line, and 0 (`<unk>`) for everything else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/arena.h"
#include "predict/error_text.h"
#include "predict/tokens.h"

namespace llamalloc {

inline constexpr uint32_t kMaxVocabulary = 1u << 20;

class Vocabulary {
 public:
  // `text`, of less than 4 GiB, must outlive the vocabulary. The tables come from `arena`.
  bool build(const char* text, size_t bytes, MetadataArena& arena, ErrorText& error);

  uint32_t size() const { return size_; }
  uint32_t id(const Token& token) const;

 private:
  // A vocabulary whose hashes collide on purpose is refused before it costs much time.
  static constexpr uint32_t kMaxProbes = 512;

  // A line as it stands in the file; shares its shape with Token.
  struct Line {
    const char* text;
    uint32_t length;
    char byte(uint32_t i) const { return text[i]; }
  };
  Line line(uint32_t id) const { return {text_ + starts_[id], starts_[id + 1] - starts_[id] - 1}; }
  bool find_lines(size_t bytes, ErrorText& error);
  bool fill_slots(ErrorText& error);
  // The slot that holds the spelling or would take it; null after kMaxProbes.
  template <typename Bytes>
  uint32_t* probe(const Bytes& bytes) const;

  const char* text_ = nullptr;
  uint32_t* starts_ = nullptr;
  uint32_t* slots_ = nullptr;
  uint32_t size_ = 0;
  uint32_t mask_ = 0;
};

}  // namespace llamalloc
