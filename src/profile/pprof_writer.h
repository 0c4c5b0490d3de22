// SPDX-License-Identifier: Apache-2.0
// Writes a snapshot as a gzipped pprof profile (contracts/profile_format.md; field numbers from
// github.com/google/pprof, proto/profile.proto).
//
//   header | sample ... | mapping ... | location ... | function ... | string ...   --> gzip -->
//   sink
//
// location id = frame id + 1, function id = order of first use + 1. Mappings ascend by address, so
// the program itself comes first, as pprof expects. Strings come last, because only then all are
// known. The object is large: create it in the scratch arena that it also works in. Call write()
// once.
#pragma once

#include "os/byte_sink.h"
#include "profile/gzip_sink.h"
#include "profile/named_frames.h"
#include "profile/profile_view.h"
#include "profile/proto_writer.h"
#include "profile/snapshot.h"
#include "profile/stack_table.h"
#include "profile/string_table.h"
#include "profile/tag_table.h"

namespace llamalloc {

class PprofWriter {
 public:
  struct Header {
    Nanos time;      // when sampling began, since the epoch, UTC
    Nanos duration;  // from there to the snapshot
    size_t interval;
    bool at_exit;
    ProfileKind kind = ProfileKind::lifetimes;
    const PinnedPages* pinned = nullptr;
    const Snapshot* before = nullptr;  // allocs: sorted; only what was allocated since counts
    const char* program = nullptr;
    const char* load = nullptr;  // a comment on the whole load; null or empty: none
    Nanos began{};               // when sampling began, by the clock of the snapshot
    bool sampling = false;       // it goes on
    bool from_start = false;     // `time` is the start of the process
  };

  PprofWriter(MetadataArena& scratch, ByteSink& out, const NamedFrames& names,
              const StackTable& stacks, const TagTable& tags)
      : scratch_(scratch),
        names_(names),
        stacks_(stacks),
        tags_(tags),
        gzip_(out),
        strings_(scratch) {}

  // False: the sink failed, or no memory.
  bool write(const Header& header, const Snapshot& snapshot);

 private:
  struct Frame {
    bool used;
    uint32_t function;  // id
    uint32_t module;    // in names_, kNoModule: none
  };
  struct Values {
    double count = 0, bytes = 0;
    Values operator+(const Values& o) const { return {count + o.count, bytes + o.bytes}; }
  };
  struct Totals {
    Values dead, alive, before;  // before: allocated until the window was opened
    double pinned = 0;           // bytes
  };
  static constexpr uint32_t kNoModule = NamedFrames::kNoModule;
  static constexpr size_t kFlushAt = 32 * 1024;
  static constexpr size_t kLargestField = 32 * 1024;

  bool prepare();
  bool name_frames();
  uint32_t function_named(const char* name, size_t length);
  void order_modules();

  void write_header(const Header& header);
  void write_history(const Snapshot& snapshot);
  void write_value_type(uint32_t field, const char* type, const char* unit);
  void write_samples(const Snapshot& snapshot);
  Totals totals_of(const LifetimeStats& dead, const Survivor* alive, size_t alive_count) const;
  Values allocated_before(uint32_t context);
  void write_sample(const Snapshot& snapshot, uint32_t context, const Survivor* alive,
                    size_t alive_count, const Totals& totals);
  void write_live(const Snapshot& snapshot, uint32_t context);
  void write_locations(uint32_t stack);
  void write_values(const Totals& totals);
  void write_dead_labels(const LifetimeStats& dead);
  void write_mappings();
  void write_mapping(uint32_t id, const ModuleInfo& module);
  void write_module_comment(uint32_t id, const ModuleInfo& module);
  void write_frames();
  void write_functions();
  void write_strings();

  void label(const char* key, uint64_t value, const char* unit);
  void text_label(const char* key, const char* text, size_t length);
  template <typename CountOf>
  void histogram_label(const char* key, CountOf&& count_of);
  // After each field of the profile.
  bool flush_if(size_t enough);

  MetadataArena& scratch_;
  Header header_{};
  const Survivor* next_before_ = nullptr;  // of header_.before
  const LiveShare* next_share_ = nullptr;  // of the snapshot; null: no history is written
  const NamedFrames& names_;
  const StackTable& stacks_;
  const TagTable& tags_;
  GzipSink gzip_;
  StringTable strings_;
  IdIndex function_index_;
  ChunkedArray<uint32_t, 8, 8192> functions_;         // [function id - 1] string id
  uint32_t module_order_[NamedFrames::kMostModules];  // those of frames, by start
  uint32_t module_count_ = 0;
  uint32_t mapping_id_[NamedFrames::kMostModules] = {};  // of a module of names_; 0: none
  Frame* frames_ = nullptr;                              // [frame_count_]
  uint32_t frame_count_ = 0;
  uint8_t buffer_[kFlushAt + kLargestField];
  ProtoWriter proto_{buffer_, sizeof(buffer_)};
  char name_[16 * 1024];
};

}  // namespace llamalloc
