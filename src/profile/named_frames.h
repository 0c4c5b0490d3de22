// SPDX-License-Identifier: Apache-2.0
// Names and modules of the frames of a StackTable. Each is looked up once and kept. So a profile
// can name code that was unloaded long ago, if it was looked up while it was loaded.
//
//   frame new --found--> named for good; where no descriptor or memory was left for the name (it is
//     |                  "?module+0x..." then): asked again, less and less often
//     |  \--not found--> "?", asked again when modules have come or gone
//     \--of module 0--> named, or "?" for good; asked again when modules have come or gone: with
//                       another name there it is "?", for samples of both are in its contexts
//
// Used by one thread at a time (Profiler). Names are never freed. There are at most as many names
// as frames, and at most kMostModules module records.
#pragma once

#include "profile/frame_names.h"
#include "profile/stack_table.h"
#include "profile/string_table.h"

namespace llamalloc {

class NamedFrames {
 public:
  static constexpr uint32_t kNoModule = ~uint32_t{0};
  static constexpr uint32_t kMostModules = 2 * StackTable::kMostModules;  // some have two parts
  static constexpr size_t kLongestName = 16 * 1024;                       // cut there

  explicit NamedFrames(MetadataArena& arena) : arena_(arena), strings_(arena) {}

  // Names what the table holds by now. False: no memory for all of it.
  bool update(const StackTable& stacks, FrameNames& names);

  uint32_t size() const { return frames_.size(); }
  // Printable, at least one byte, not 0-terminated. frame < size()
  const char* name(uint32_t frame) const { return strings_.text(frames_[frame].name); }
  uint32_t name_length(uint32_t frame) const { return strings_.length(frames_[frame].name); }
  // kNoModule, or the index of its module.
  uint32_t module(uint32_t frame) const { return frames_[frame].module; }
  const ModuleInfo& module_info(uint32_t i) const { return modules_[i]; }

 private:
  struct Frame {
    uint32_t name = 0;  // in strings_; 0: none yet
    uint32_t module = kNoModule;
    bool settled = false;
    bool starved = false;  // the name may be another one
  };
  // Updates until starved names are asked for again, at most.
  static constexpr uint32_t kLongestPause = 1024;

  bool ask_again(uint32_t known, bool all, const StackTable& stacks, FrameNames& names);
  bool is_time_again() { return starved_ && ++waited_ >= pause_; }
  bool name_frame(const StackTable& stacks, uint32_t i, FrameNames& names);
  uint32_t ask_name(uintptr_t address, uint64_t image, FrameNames& names);
  uint32_t module_at(uintptr_t address, uint64_t image, FrameNames& names);

  MetadataArena& arena_;
  StringTable strings_;
  ChunkedArray<Frame, 10, 4096> frames_;
  ChunkedArray<ModuleInfo, 4, kMostModules / 16> modules_;
  uint64_t changes_ = 0;  // of the names, at the last update
  bool starved_ = false;  // somewhere, since all were asked
  uint32_t pause_ = 1, waited_ = 0;
  char name_[kLongestName];
};

}  // namespace llamalloc
