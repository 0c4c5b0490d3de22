// SPDX-License-Identifier: Apache-2.0
// Writing, and where to.
#include <cstdio>
#include <cstring>
#include <new>

#include "base/crc32.h"
#include "os/byte_sink.h"
#include "os/path.h"
#include "policy/learned_layout.h"
#include "policy/learned_state.h"

namespace llamalloc {
namespace {

constexpr size_t kMostPath = 4096;
constexpr size_t kMostName = 200;  // with what is added, a file name of at most 255 bytes

// A program's name as part of a file name and of a line: printable, without slash or space.
size_t copy_name(const char* from, char* to, size_t room) {
  size_t length = 0;
  for (; from[length] != 0 && length + 1 < room; ++length) {
    const char c = from[length];
    to[length] = c > ' ' && c <= '~' && c != '/' ? c : '_';
  }
  to[length] = 0;
  return length;
}

// A sink that knows the checksum of what it was given.
struct CheckedSink {
  FileSink& file;
  uint32_t crc = 0;
  bool write(const uint8_t* data, size_t bytes) {
    crc = crc32(crc, data, bytes);
    return file.write(data, bytes);
  }
};

uint32_t count_filled(LearnedNodes nodes) {
  uint32_t count = 0;
  for (const LearnedNode& node : nodes) count += !is_empty(node.evidence);
  return count;
}

bool write_header(CheckedSink& sink, const LearnedHeader& header, uint32_t nodes) {
  uint8_t bytes[kLearnedHeaderBytes];
  LearnedStart start{{}, kLearnedVersion, nodes};
  memcpy(start.magic, kLearnedMagic, sizeof(start.magic));
  LittleEndianOut out(bytes);
  lay_out_header(out, start, header);
  return sink.write(bytes, sizeof(bytes));
}

bool write_nodes(CheckedSink& sink, LearnedNodes nodes) {
  uint8_t bytes[kLearnedNodeBytes];
  bool good = true;
  for (const LearnedNode& node : nodes) {
    if (is_empty(node.evidence)) continue;
    LittleEndianOut out(bytes);
    lay_out_node(out, node);
    good = good && sink.write(bytes, sizeof(bytes));
  }
  return good;
}

bool write_tail(CheckedSink& sink) {
  uint8_t bytes[kLearnedTailBytes];
  LittleEndianOut(bytes).number(sink.crc);
  return sink.write(bytes, sizeof(bytes));
}

bool write_all(FileSink& file, const char* path, const LearnedHeader& header, LearnedNodes nodes) {
  CheckedSink sink{file};
  return file.open(path, 0600) && write_header(sink, header, count_filled(nodes)) &&
         write_nodes(sink, nodes) && write_tail(sink) && file.commit();
}

}  // namespace

LearnedHeader header_for(const LearnedProgram& program) {
  LearnedHeader header;
  header.program = program.build;
  if (copy_name(program.name, header.name, sizeof(header.name)) == 0)
    copy_name("program", header.name, sizeof(header.name));
  return header;
}

bool write_learned_state(const char* path, const LearnedHeader& header, LearnedNodes nodes,
                         PageSource& scratch, char* message, size_t room) {
  constexpr size_t kBytes = align_up(sizeof(FileSink), kSmallPage);
  ErrorText error(message, room);
  error.prefix("state %s: cannot be written: ", path);
  if (nodes.size() > kMaxLearnedNodes || !is_sorted(nodes))
    return error.fail("nodes out of order or too many; the old file stays");
  void* memory = scratch.map(kBytes, kSmallPage);
  if (memory == nullptr) return error.fail("out of memory; the old file stays");
  auto* file = new (memory) FileSink;
  const bool written = write_all(*file, path, header, nodes);
  if (!written)
    error.fail("%s; the old file stays: correct that, or name another place", file->reason());
  scratch.unmap(memory, kBytes);
  if (written && room > 0) message[0] = 0;
  return written;
}

bool learned_path(const char* value, const char* name, char* out, size_t room) {
  char file[kMostName];
  const size_t length = strlen(value);
  const bool slash = length > 0 && value[length - 1] == '/';
  int n;
  if (!slash && !is_folder(value)) {
    n = snprintf(out, room, "%s", value);
  } else {
    if (copy_name(name, file, sizeof(file)) == 0) strcpy(file, "program");
    n = snprintf(out, room, "%s%s%s.learned", value, slash ? "" : "/", file);
  }
  return n >= 0 && static_cast<size_t>(n) < room;
}

FileLock::Fault lock_learned_state(const char* path, FileLock* lock) {
  char name[kMostPath];
  const int n = snprintf(name, sizeof(name), "%s.lock", path);
  if (n < 0 || static_cast<size_t>(n) >= sizeof(name)) return FileLock::Fault::system;
  return lock->open(name);
}

}  // namespace llamalloc
