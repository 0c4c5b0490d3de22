// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, read as hostile input.
//
//   | 8 bytes: N, little endian | N bytes: JSON | tensors, raw little endian |
//   JSON: {"__metadata__": {KEY: STRING...}, NAME: {"dtype": "F32", "shape": [V, E],
//          "data_offsets": [BEGIN, END]}...}, offsets relative to the end of the header
//
// The caller says which tensors and metadata it wants; a file must hold exactly those tensors.
// Invariant after success: shape, type and extent of each tensor agree, extents are aligned to
// their elements, and together they cover the rest of the file without gap or overlap.
// Source of the format: the safetensors README, section Format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "predict/error_text.h"

namespace llamalloc {

inline constexpr size_t kMaxHeaderBytes = size_t{16} << 20;
inline constexpr int kMaxRank = 4;

struct SafetensorsMetadata {
  const char* key;
  bool present = false;
  char value[512] = {};
};

struct SafetensorsTensor {
  const char* name;
  const char* dtype;     // as the file must spell it: "F32", "U8"
  size_t element_bytes;  // of that type
  int rank;              // that the file must have
  bool present = false;
  uint64_t shape[kMaxRank] = {};
  const char* data = nullptr;
  size_t bytes = 0;
};

// Fills in `tensors` and the metadata that is there, or says in `error` what is wrong.
// `data` must be aligned to 8 bytes and outlive the tensors.
bool read_safetensors(const char* data, size_t size, std::span<SafetensorsMetadata> metadata,
                      std::span<SafetensorsTensor> tensors, ErrorText& error);

}  // namespace llamalloc
