// SPDX-License-Identifier: Apache-2.0
// A trace file as chunks: mapped, indexed and checked, the bytes treated as hostile.
//
// A file whose last chunk is cut short (a killed process, a full disk) is good up to there.
// Anything else that is wrong is one message with the offset of the chunk where it was found.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/format.h"

namespace llamalloc::trace {

struct Chunk {
  ChunkHeader header;
  uint64_t offset;      // of the header, in the file
  const char* payload;  // as stored
};

class ChunkFile {
 public:
  ~ChunkFile();
  ChunkFile(const ChunkFile&) = delete;
  ChunkFile& operator=(const ChunkFile&) = delete;

  // Null, with the error, if it is no trace or a damaged one. A whole file that was compressed by
  // zstd is read too.
  static std::unique_ptr<ChunkFile> open(const std::string& path, std::string* error);
  // The same over bytes in memory, which stay the caller's; `name` is for messages.
  static std::unique_ptr<ChunkFile> over(const char* data, size_t bytes, const std::string& name,
                                         std::string* error);

  const FileHeader& header() const { return header_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t lost_bytes() const { return lost_bytes_; }  // of a last chunk that was cut short
  const std::string& name() const { return name_; }

  // The payload, decoded into *room if need be. False, with the error, if it cannot be.
  bool decode(const Chunk& chunk, std::vector<char>* room, PayloadReader* out,
              std::string* error) const;
  // "NAME: byte OFFSET: WHAT; the trace is damaged, record it again"
  std::string damaged(uint64_t offset, const std::string& what) const;

 private:
  ChunkFile() = default;
  bool map(const std::string& path, std::string* error);
  bool unpack(std::string* error);
  bool index(std::string* error);
  std::string fault_of(const Chunk& chunk) const;

  std::string name_;
  const char* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t lost_bytes_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::vector<char> unpacked_;
  FileHeader header_{};
  std::vector<Chunk> chunks_;
};

}  // namespace llamalloc::trace
