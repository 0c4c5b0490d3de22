// SPDX-License-Identifier: Apache-2.0
#include "state_file/state_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "os/byte_sink.h"
#include "os/file_image.h"
#include "os/path.h"

namespace llamalloc {
namespace {

constexpr size_t kMostPath = 4096;
constexpr size_t kMostName = 200;  // with what is added, a file name of at most 255 bytes

ReadStatus refuse(FileImage::Fault fault, const FileImage& image, ErrorText& error) {
  using Fault = FileImage::Fault;
  switch (fault) {
    case Fault::not_regular:
      return no_learned_state(error, "not a regular file");
    case Fault::too_large:
      return no_learned_state(error, "not a state file, since larger than 1 MiB");
    case Fault::out_of_memory:
      return cannot_be_read(error, "out of memory");
    default:
      return cannot_be_read(error, image.reason());
  }
}

// Behind the reason. There may be no earlier file.
const char* cure(int error) {
  if (error == ENOENT) return ": its folder is missing; make it, or name another place";
  return "; an earlier file stays: correct that, or name another place";
}

bool write_whole(FileSink& file, const char* path, const uint8_t* data, size_t bytes) {
  if (!file.open(path, 0600)) return false;
  file.give_to_owner();
  return file.write(data, bytes) && file.commit();
}

}  // namespace

ReadStatus read_learned_state(const char* path, const LearnedProgram& program, PageSource& scratch,
                              LearnedState* out, char* message, size_t room) {
  using Fault = FileImage::Fault;
  ErrorText error(message, room);
  error.add("state %s: ", path);
  constexpr char kPlanted[] = "of another user, in a folder that all may write to";
  if (may_be_planted(path)) return no_learned_state(error, kPlanted);
  FileImage image;
  const Fault fault = image.open(path, kMaxLearnedBytes);
  if (fault == Fault::system && image.is_absent()) {
    if (room > 0) message[0] = 0;
    return ReadStatus::absent;
  }
  if (fault != Fault::none) return refuse(fault, image, error);
  if (may_be_planted(path, image.owner())) {  // it came meanwhile
    image.close();
    return no_learned_state(error, kPlanted);
  }
  const ReadStatus status =
      parse_learned_state(image.data(), image.size(), program, scratch, out, error);
  image.close();
  if (status == ReadStatus::ok && room > 0) message[0] = 0;
  return status;
}

bool write_learned_state(const char* path, const LearnedHeader& header, LearnedNodes nodes,
                         LearnedFrames frames, PageSource& scratch, char* message, size_t room) {
  ErrorText error(message, room);
  error.add("state %s: cannot be written: ", path);
  const size_t bytes = encoded_bytes(nodes, frames);
  if (bytes > kMaxLearnedBytes || !is_sorted(nodes) || !is_sorted(frames))
    return error.fail("nodes out of order or too many; an earlier file stays");
  constexpr size_t kFile = align_up(sizeof(FileSink), kSmallPage);
  const size_t all = kFile + align_up(bytes, kSmallPage);
  auto* memory = static_cast<uint8_t*>(scratch.map(all, kSmallPage));
  if (memory == nullptr) return error.fail("out of memory; an earlier file stays");
  auto* file = new (memory) FileSink;
  encode_learned_state(header, nodes, frames, memory + kFile);
  const bool written = write_whole(*file, path, memory + kFile, bytes);
  if (!written) error.fail("%s%s", file->reason(), cure(file->error()));
  scratch.unmap(memory, all);
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
    if (copy_program_name(name, file, sizeof(file)) == 0) strcpy(file, "program");
    n = snprintf(out, room, "%s%s%s.learned", value, slash ? "" : "/", file);
  }
  return n >= 0 && static_cast<size_t>(n) < room;
}

FileLock::Fault lock_learned_state(const char* path, FileLock* lock) {
  char name[kMostPath];
  const int n = snprintf(name, sizeof(name), "%s.lock", path);
  if (n < 0 || static_cast<size_t>(n) >= sizeof(name)) return FileLock::Fault::system;
  return lock->open(name, path);
}

}  // namespace llamalloc
