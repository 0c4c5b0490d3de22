// SPDX-License-Identifier: Apache-2.0
// Writes a trace file of events whose objects are numbered: what a generator makes, a part of
// another trace, or a recording made small (`llamalloc-trace pack`). Reads back as exactly these
// events.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/chunk_builder.h"
#include "trace/event.h"
#include "trace_file/trace_tables.h"

namespace llamalloc::trace {

struct TraceFileOptions {
  uint32_t pid = 0;
  uint64_t wall_ns = 0;
  std::string command;  // arguments joined by spaces
  int level = 6;        // of zstd; 0: not compressed
  bool ended_in_order = true;
};

class TraceFileWriter final : public EventSink {
 public:
  ~TraceFileWriter() override;
  // Null, with the error. Writes PATH.tmp; close() renames it.
  static std::unique_ptr<TraceFileWriter> create(const std::string& path,
                                                 const TraceFileOptions& options,
                                                 std::string* error);

  // Numbers are given in order from 0 (stacks: from 1); what a frame or a stack names comes first.
  uint32_t add_module(const Module& module);
  uint32_t add_frame(const Frame& frame);
  uint32_t add_stack(std::span<const uint32_t> frames);
  void add_tables(const Tables& tables);  // of another trace: the numbers stay
  // Events as event.h has them: time never falls, allocations number objects from 0 on.
  void write(std::span<const Event> events) override;

  // False, with the error, if anything could not be written; the file is then removed.
  bool close(std::string* error);

 private:
  static constexpr size_t kRoom = 256 * 1024;
  struct Batch {
    ChunkKind kind;
    std::vector<uint8_t> bytes;
    uint32_t count = 0;
  };

  TraceFileWriter() = default;
  void put(Batch& batch, std::initializer_list<uint64_t> numbers);
  void put_text(Batch& batch, const std::string& text);
  void end_record(Batch& batch);
  void flush(Batch& batch);
  void flush_events();
  void write_one(const Event& event);
  void write_chunk(ChunkHeader header, const void* payload);
  void write_raw(const void* data, size_t bytes);

  std::string path_, temporary_;
  TraceFileOptions options_;
  FILE* file_ = nullptr;
  int error_ = 0;  // errno of the first failure
  uint32_t frames_ = 0;
  uint32_t stacks_ = 1;
  uint32_t modules_count_ = 0;
  Batch frame_batch_{ChunkKind::frames, {}, 0};
  Batch stack_batch_{ChunkKind::stacks, {}, 0};
  Batch module_batch_{ChunkKind::modules, {}, 0};
  Batch name_batch_{ChunkKind::names, {}, 0};
  ChunkBuilder chunk_;
  std::vector<uint8_t> room_;
  uint64_t next_object_ = 0;
  std::vector<char> packed_;
};

}  // namespace llamalloc::trace
