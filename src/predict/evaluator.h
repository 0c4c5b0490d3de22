// SPDX-License-Identifier: Apache-2.0
// Computes the lifetime class of a calling context. The background worker calls it on a miss.
//
//   frame names, size --> name table, else site prior, else what the network says:
//   frame names, size --TokenSequence--> tokens --Vocabulary--> ids --BagOfFrames--> probabilities
//
// Used by one thread at a time, because the scratch memory is part of the object. Allocates nothing
// after loading.
#pragma once

#include <cstddef>

#include "base/lifetime_class.h"
#include "os/arena.h"
#include "predict/model_file.h"
#include "predict/tokens.h"

namespace llamalloc {

class Evaluator {
 public:
  struct Result {
    LifetimeClass best;                   // the most probable class
    float probability[kLifetimeClasses];  // sum 1
  };

  // Null on failure; `error` then holds one line like "model /x/y.model: version 2, this library
  // reads 3; train again". What a failed load took from the arena stays taken.
  static Evaluator* load(const char* path, MetadataArena& arena, char* error, size_t room);

  // frames: names as contracts/stack_tokens.md forms them, innermost first; size in bytes.
  // A model whose arithmetic overflows answers `mixed`.
  Result evaluate(const char* const* frames, int depth, size_t size);

  // By all evidence but the exact table, which needs no names: names, site prior, network.
  ModelEvidence::Answer answer(const char* const* frames, int depth, size_t size);
  const ModelEvidence& evidence() const { return file_.model().evidence; }

  // Gives the file's memory back; nothing else may be called then.
  void close() { file_.close(); }

  const BagConfig& config() const { return network_.config(); }
  // Bytes of the model file in memory; they are not counted by the arena.
  size_t model_bytes() const { return file_.bytes(); }
  BagOfFrames& network() { return network_; }

 private:
  ModelFile file_;
  BagOfFrames network_;
  TokenSequence tokens_;
};

// The class to use for placement. Since only the page group matters, this takes the group with the
// largest sum of probabilities, and in it the most probable class. If no group reaches one half,
// the result is `mixed`.
LifetimeClass choose(const Evaluator::Result& result);

}  // namespace llamalloc
