// SPDX-License-Identifier: Apache-2.0
// Reading. All bytes are hostile until parse_learned_state has seen all of them.
#include "learning/learned_state.h"

#include <algorithm>
#include <cstring>

#include "base/crc32.h"
#include "learning/learned_layout.h"
#include "predict/context_tree.h"

namespace llamalloc {
namespace {

constexpr char kReplaced[] = "it is not used, and replaced at the next write";

ReadStatus damaged(ErrorText& error, const char* what) {
  error.fail("%s; %s", what, kReplaced);
  return ReadStatus::damaged;
}

// A crash of the system may leave zeroes where the file was, or nothing.
bool is_unwritten(const char* data, size_t size) {
  return std::all_of(data, data + size, [](char byte) { return byte == 0; });
}

ReadStatus check_start(const char* data, size_t size, LearnedStart* start, LearnedHeader* header,
                       ErrorText& error) {
  constexpr size_t kMagic = sizeof(kLearnedMagic);
  if (is_unwritten(data, std::min(size, kLearnedHeaderBytes))) return damaged(error, "empty");
  if (memcmp(data, kLearnedMagic, std::min(size, kMagic)) != 0)
    return no_learned_state(error, "not a state file");
  if (size < kLearnedHeaderBytes) return damaged(error, "truncated");
  LittleEndianIn in(data);
  lay_out_header(in, *start, *header);
  if (start->version == kLearnedVersion || start->version == 1) return ReadStatus::ok;
  error.fail(
      "version %u, this library reads 1 and %u; it is left alone: remove it, or name another file",
      start->version, kLearnedVersion);
  return ReadStatus::other_version;
}

// How the file is divided, as its numbers say.
struct Parts {
  uint32_t version = 0;
  size_t nodes = 0;
  uint32_t frames = 0;
  uint64_t modules = 0;

  size_t node_bytes() const { return version == 1 ? kOldNodeBytes : kLearnedNodeBytes; }
  size_t all_bytes() const {
    return version == 1 ? kLearnedHeaderBytes + nodes * kOldNodeBytes + kLearnedChecksumBytes
                        : learned_bytes(nodes, frames);
  }
};

ReadStatus check_whole(const char* data, size_t size, const LearnedStart& start, Parts* parts,
                       ErrorText& error) {
  if (start.nodes > kMaxOldNodes) return damaged(error, "too many nodes");
  *parts = {start.version, start.nodes};
  if (start.version != 1 && size >= learned_bytes(start.nodes, 0)) {
    LittleEndianIn in(data + size - kLearnedTailBytes);
    lay_out_tail(in, parts->modules, parts->frames);
  }
  if (size != parts->all_bytes()) {
    error.fail("its numbers say %zu bytes, it has %zu; %s", parts->all_bytes(), size, kReplaced);
    return ReadStatus::damaged;
  }
  uint32_t written;
  LittleEndianIn(data + size - kLearnedChecksumBytes).number(written);
  return crc32(0, data, size - kLearnedChecksumBytes) == written
             ? ReadStatus::ok
             : damaged(error, "the checksum does not match");
}

bool is_name(const char (&name)[kLearnedNameBytes]) {
  if (name[0] == 0 || name[kLearnedNameBytes - 1] != 0) return false;
  return memcmp(header_for({0, name}).name, name, kLearnedNameBytes) == 0;
}

bool is_sane(const LearnedHeader& header) {
  return is_name(header.name) && header.gate.is_valid();
}

ReadStatus check_program(const LearnedHeader& header, const LearnedProgram& program,
                         ErrorText& error) {
  const LearnedHeader ours = header_for(program);
  if (strcmp(header.name, ours.name) == 0) return ReadStatus::ok;
  error.fail("learned in the program %s, and this is %s; it is left alone: name a folder",
             header.name, ours.name);
  return ReadStatus::other_program;
}

// By the key: what it extends, and by what. A file of version 1 does not say that.
bool has_sane_path(const LearnedNode& node) {
  if (!node.path_is_known()) return node.word == 0;
  return (node.level == 1) == (node.parent == ContextPath::kRoot) &&
         ContextPath::extend(node.parent, node.word) == node.key;
}

bool read_nodes(const char* data, const Parts& parts, NodeArray* nodes) {
  LittleEndianIn in(data);
  for (size_t i = 0; i < parts.nodes; ++i) {
    LearnedNode node;
    lay_out_node(in, node, parts.version);
    if (node.level == 0 || node.level > kMostLearnedLevels || is_empty(node.evidence) ||
        !has_sane_path(node))
      return false;
    nodes->append(node);
  }
  return is_sorted(nodes->view());
}

bool read_frames(const char* data, const Parts& parts, FrameArray* frames) {
  LittleEndianIn in(data);
  for (size_t i = 0; i < parts.frames; ++i) {
    LearnedFrame frame;
    lay_out_frame(in, frame);
    frames->append(frame);
  }
  return is_sorted(frames->view());
}

}  // namespace

ReadStatus no_learned_state(ErrorText& error, const char* why) {
  error.fail("%s; it is left alone: name another file, or a folder", why);
  return ReadStatus::unreadable;
}

ReadStatus cannot_be_read(ErrorText& error, const char* why) {
  error.fail("cannot be read: %s; correct that, or name another file", why);
  return ReadStatus::unreadable;
}

ReadStatus parse_learned_state(const char* data, size_t size, const LearnedProgram& program,
                               PageSource& scratch, LearnedState* out, ErrorText& error) {
  LearnedStart start;
  LearnedHeader header;
  Parts parts;
  ReadStatus status = check_start(data, size, &start, &header, error);
  if (status == ReadStatus::ok) status = check_whole(data, size, start, &parts, error);
  if (status != ReadStatus::ok) return status;
  if (!is_sane(header)) return damaged(error, "its header is not sane");
  const bool any = program.name[0] == 0;
  if (!any) status = check_program(header, program, error);
  if (status != ReadStatus::ok) return status;
  if (!out->nodes.make_room(parts.nodes, scratch) ||
      !out->frames.make_room(parts.frames, scratch)) {
    out->give_back();
    return cannot_be_read(error, "out of memory");
  }
  const char* const nodes = data + kLearnedHeaderBytes;
  const char* const frames = nodes + parts.nodes * parts.node_bytes();
  if (!read_nodes(nodes, parts, &out->nodes) || !read_frames(frames, parts, &out->frames)) {
    out->give_back();
    return damaged(error, "its nodes are not sane");
  }
  out->header = header;
  out->header.modules = parts.modules;
  if (any || header.program == program.build) return ReadStatus::ok;
  error.fail("of another build of %s", header.name);
  return ReadStatus::other_build;
}

}  // namespace llamalloc
