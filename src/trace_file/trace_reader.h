// SPDX-License-Identifier: Apache-2.0
// Reads a trace file: threads merged by time, addresses turned into object numbers.
//
//   chunk_file    bytes -> checked chunks    event_stream   chunks of one stream -> records
//   table_reader  chunks -> stacks, frames   trace_reader   streams -> events (EventSource)
//   trace_writer  events -> file             trace_cut      reader -> part of it -> writer
//   trace_summary events -> what `trace info` shows
//
//   chunks --> a stream for each thread --> the earliest head --> 256 records --> events
//                                                  (their table entries are fetched meanwhile)
//
// A recording may lack what a killed process had not written yet: an allocation where an object
// still lives means that its free is missing, and gives a free at that time; a free of what nobody
// allocated is left out. Both are counted.
//
// On one core: 14 million events a second of a recording with half a million live objects, 25
// million with 80,000, over 20 million of a packed file (`llamalloc-trace count` measures it).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/event.h"
#include "trace_file/address_map.h"
#include "trace_file/chunk_file.h"
#include "trace_file/event_stream.h"
#include "trace_file/table_reader.h"
#include "trace_file/trace_tables.h"

namespace llamalloc::trace {

class TraceReader final : public EventSource {
 public:
  // Null, with a message that names cause and cure.
  static std::unique_ptr<TraceReader> open(const std::string& path, std::string* error);
  static std::unique_ptr<TraceReader> over(std::unique_ptr<ChunkFile> file, std::string* error);

  // 0 at the end, or where the trace is damaged: then error() says so.
  size_t read(std::span<Event> events) override;
  const std::string& error() const { return error_; }
  // From the first event again.
  void rewind();

  const Tables& tables() const { return contents_.tables; }
  const Contents& contents() const { return contents_; }
  const ChunkFile& file() const { return *file_; }

  // Of the events read so far.
  uint64_t objects() const { return next_object_; }
  uint64_t missing_frees() const { return missing_frees_; }
  uint64_t unknown_frees() const { return unknown_frees_; }
  uint32_t threads() const { return static_cast<uint32_t>(threads_.size()); }

 private:
  static constexpr size_t kBatch = 256;
  static constexpr uint64_t kNone = AddressMap::kNone;
  struct Head {
    uint64_t time;
    EventStream* stream;
    // Whose free comes before an allocation of the same time.
    bool operator>(const Head& other) const {
      return time != other.time ? time > other.time : rank() > other.rank();
    }
    int rank() const { return stream->head().op == Op::allocate ? 1 : 0; }
  };

  TraceReader() = default;
  bool make_streams();
  void start();
  void fill();
  Event* resolve_last(const Record& record, Event* out);
  Event* resolve(const Record& record, Event* out);
  Event* resolve_observed(const Record& record, Event event, Event* out);
  Event* resolve_numbered(const Record& record, Event event, Event* out);
  uint32_t thread_of(uint32_t in_file);
  void fail(const std::string& error);

  std::unique_ptr<ChunkFile> file_;
  Contents contents_;
  bool is_resolved_ = false;
  std::vector<std::unique_ptr<EventStream>> streams_;
  std::vector<Head> heads_;  // a heap, the earliest first
  Record batch_[kBatch];
  size_t batch_at_ = 0;
  size_t batch_end_ = 0;
  Event spare_;  // came after the caller's last
  bool has_spare_ = false;
  AddressMap live_;                 // observed
  std::vector<bool> is_live_;       // resolved, by object
  std::vector<uint64_t> resizing_;  // by thread: the object, or kNone
  std::unordered_map<uint32_t, uint32_t> threads_;
  uint32_t last_in_file_ = 0;
  uint32_t last_thread_ = 0;
  uint64_t next_object_ = 0;
  uint64_t missing_frees_ = 0;
  uint64_t unknown_frees_ = 0;
  std::string error_;
};

}  // namespace llamalloc::trace
