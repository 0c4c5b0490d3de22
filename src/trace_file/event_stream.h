// SPDX-License-Identifier: Apache-2.0
// The events of one stream of a trace, chunk after chunk, still by address (or by object number).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace_file/chunk_file.h"

namespace llamalloc::trace {

struct Record {
  uint64_t time;
  uint64_t place;  // observed: address / 16; resolved: object
  uint64_t size;
  uint32_t stack;
  uint32_t thread;  // as the file numbers them
  Op op;
  uint8_t alignment_log2;
};

class EventStream {
 public:
  EventStream(const ChunkFile& file, uint32_t stacks) : file_(&file), stacks_(stacks) {}
  void add(const Chunk& chunk) { chunks_.push_back(&chunk); }

  // The record that comes next; only after has_head().
  const Record& head() const { return head_; }
  // False: the stream is over, or error() says why not.
  bool advance() {
    if (left_ == 0 && !next_chunk()) return false;
    --left_;
    return read_record();
  }
  const std::string& error() const { return error_; }
  void rewind();

 private:
  bool next_chunk();
  bool read_record();
  bool fail(const char* what);
  uint64_t read_place();

  const ChunkFile* file_;
  uint32_t stacks_;
  std::vector<const Chunk*> chunks_;
  size_t chunk_ = 0;   // the next one
  uint32_t left_ = 0;  // records of the one before it
  bool is_resolved_ = false;
  PayloadReader in_;
  std::vector<char> room_;
  uint64_t time_ = 0;
  uint64_t address_ = 0;
  uint64_t next_object_ = 0;
  uint32_t thread_ = 0;
  Record head_{};
  std::string error_;
};

}  // namespace llamalloc::trace
