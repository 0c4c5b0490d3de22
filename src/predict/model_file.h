// SPDX-License-Identifier: Apache-2.0
// The model file of contracts/model_format.md: read, validated as hostile, kept in memory.
//
//   file --FileImage--> bytes --read_safetensors--> tensors --checks--> Model (points into bytes)
//
// Invariant of a Model: all weights are finite, all shapes agree, vocabulary.size() is V, its line
// 1 is `@`, the outputs are the classes of contracts/lifetime_classes.def in their order, keys of
// the tables ascend, and each answer in them is one.
#pragma once

#include <cstddef>

#include "os/arena.h"
#include "os/file_image.h"
#include "predict/bag_of_frames.h"
#include "predict/error_text.h"
#include "predict/model_evidence.h"
#include "predict/vocabulary.h"

namespace llamalloc {

inline constexpr size_t kMaxModelBytes = size_t{1} << 30;
inline constexpr uint32_t kMaxWidth = 512;       // of E and H
inline constexpr uint32_t kMaxNodes = 1u << 20;  // of each table
inline constexpr uint32_t kMaxBuilds = 64;

struct Model {
  BagConfig config;
  BagWeights weights;
  Vocabulary vocabulary;
  ModelEvidence evidence;
};

// A model over bytes in memory, aligned to 8, that outlive it. False: `error` says what is wrong.
bool read_model(const char* data, size_t size, MetadataArena& arena, Model* model,
                ErrorText& error);

class ModelFile {
 public:
  // Messages begin with "model PATH: ". After a failure only arena memory stays in use.
  bool open(const char* path, MetadataArena& arena, ErrorText& error);
  void close() { image_.close(); }
  const Model& model() const { return model_; }
  size_t bytes() const { return image_.size(); }

 private:
  FileImage image_;
  Model model_;
};

}  // namespace llamalloc
