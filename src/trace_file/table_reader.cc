// SPDX-License-Identifier: Apache-2.0
#include "trace_file/table_reader.h"

#include <algorithm>

namespace llamalloc::trace {
namespace {

constexpr uint64_t kDeepest = 4096;  // frames of a stack

class TableReader {
 public:
  explicit TableReader(Contents* out) : out_(*out) {}

  // What is wrong with the chunk, or null.
  const char* read(const ChunkHeader& header, PayloadReader in) {
    if (header.kind == ChunkKind::about) return read_about(in);
    if (header.kind == ChunkKind::end) out_.ended_in_order = true;
    if (header.kind <= ChunkKind::resolved || header.kind > ChunkKind::names) return nullptr;
    for (uint32_t i = 0; i < header.count; ++i) {
      const char* fault = read_record(header.kind, in);
      if (fault == nullptr && !in.ok()) fault = "a table ends inside a record";
      if (fault != nullptr) return fault;
    }
    return in.at_end() ? nullptr : "a table is longer than its records";
  }

  // Names come before or after the frames that they name.
  void give_names() {
    for (Name& name : names_) {
      if (name.frame >= out_.tables.frames.size()) continue;
      Frame& frame = out_.tables.frames[name.frame];
      frame.name = std::move(name.text);
      if (name.module - 1 < out_.tables.modules.size())
        frame.module = static_cast<uint32_t>(name.module - 1);
    }
  }

 private:
  struct Name {
    uint64_t frame;
    uint64_t module;  // 1 + number; 0: none
    std::string text;
  };

  const char* read_record(ChunkKind kind, PayloadReader& in) {
    switch (kind) {
      case ChunkKind::frames:
        return read_frame(in);
      case ChunkKind::stacks:
        return read_stack(in);
      case ChunkKind::modules:
        return read_module(in);
      default:
        return read_name(in);
    }
  }
  const char* read_about(PayloadReader in) {
    const size_t bytes = in.left();
    out_.command.assign(in.bytes(bytes), bytes);
    while (!out_.command.empty() && out_.command.back() == '\0') out_.command.pop_back();
    std::replace(out_.command.begin(), out_.command.end(), '\0', ' ');
    return nullptr;
  }
  const char* read_frame(PayloadReader& in) {
    if (in.varint() != out_.tables.frames.size()) return "frames are out of order";
    out_.tables.frames.push_back({in.varint(), Frame::kNoModule, ""});
    return nullptr;
  }
  const char* read_stack(PayloadReader& in) {
    if (in.varint() != out_.tables.stacks.size()) return "stacks are out of order";
    const uint64_t depth = in.varint();
    if (depth > kDeepest) return "a stack is too deep";
    stack_.clear();
    for (uint64_t i = 0; i < depth && in.ok(); ++i) {
      const uint64_t frame = in.varint();
      if (frame >= out_.tables.frames.size()) return "a stack refers to an unknown frame";
      stack_.push_back(static_cast<uint32_t>(frame));
    }
    out_.tables.stacks.add(stack_);
    return nullptr;
  }
  const char* read_module(PayloadReader& in) {
    if (in.varint() != out_.tables.modules.size()) return "modules are out of order";
    Module module;
    module.start = in.varint();
    module.limit = in.varint();
    module.file_offset = in.varint();
    for (const char byte : read_text(in)) {
      module.build_id += "0123456789abcdef"[byte >> 4 & 15];
      module.build_id += "0123456789abcdef"[byte & 15];
    }
    module.path = read_text(in);
    out_.tables.modules.push_back(std::move(module));
    return nullptr;
  }
  const char* read_name(PayloadReader& in) {
    const uint64_t frame = in.varint();
    const uint64_t module = in.varint();
    names_.push_back({frame, module, read_text(in)});
    return nullptr;
  }
  std::string read_text(PayloadReader& in) {
    const uint64_t bytes = in.varint();
    const char* text = in.bytes(bytes);
    return text ? std::string(text, bytes) : std::string();
  }

  Contents& out_;
  std::vector<Name> names_;
  std::vector<uint32_t> stack_;
};

}  // namespace

bool read_contents(const ChunkFile& file, Contents* out, std::string* error) {
  TableReader reader(out);
  std::vector<char> room;
  for (const Chunk& chunk : file.chunks()) {
    if (chunk.header.kind <= ChunkKind::resolved) continue;
    PayloadReader in;
    if (!file.decode(chunk, &room, &in, error)) return false;
    const char* fault = reader.read(chunk.header, in);
    if (fault == nullptr) continue;
    *error = file.damaged(chunk.offset, fault);
    return false;
  }
  reader.give_names();
  return true;
}

}  // namespace llamalloc::trace
