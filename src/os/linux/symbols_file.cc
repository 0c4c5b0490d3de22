// SPDX-License-Identifier: Apache-2.0
#include "os/linux/symbols_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "base/units.h"
#include "os/descriptor.h"
#include "os/linux/own_memory.h"

namespace llamalloc {
namespace {

constexpr size_t kCompared = 1 << 20;  // bytes of each segment
constexpr uint64_t kMostCopied = 64 << 20;

bool read_whole(int fd, uint64_t offset, void* out, size_t bytes) {
  char* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t n = pread(fd, to, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;  // an error, or it became shorter
    to += n, offset += static_cast<uint64_t>(n), bytes -= static_cast<size_t>(n);
  }
  return true;
}

// Headers are read many at a time.
class FileBytes final : public ByteSource {
 public:
  FileBytes(int fd, uint64_t size) : ByteSource(size), fd_(fd) {}

  bool read(uint64_t offset, void* out, size_t bytes) const override {
    if (!holds(offset, bytes)) return false;
    if (bytes > sizeof(window_)) return read_whole(fd_, offset, out, bytes);
    if (offset < from_ || offset + bytes > from_ + held_) {
      from_ = offset;
      held_ = size() - offset < sizeof(window_) ? size() - offset : sizeof(window_);
      if (!read_whole(fd_, from_, window_, held_)) return held_ = 0, false;
    }
    memcpy(out, window_ + (offset - from_), bytes);
    return true;
  }

 private:
  const int fd_;
  mutable uint64_t from_ = 0;
  mutable size_t held_ = 0;
  mutable uint8_t window_[1024];
};

bool reads_as_memory(const ByteSource& bytes, uint64_t offset, uintptr_t address, size_t length) {
  uint8_t in_file[512], in_memory[512];
  for (size_t done = 0; done < length; done += sizeof(in_file)) {
    const size_t part = length - done < sizeof(in_file) ? length - done : sizeof(in_file);
    if (!bytes.read(offset + done, in_file, part) ||
        !read_own_memory(address + done, in_memory, part) || memcmp(in_file, in_memory, part) != 0)
      return false;
  }
  return true;
}

// The start of each segment that nobody writes to, in the file as in memory.
bool has_loaded_bytes(const ByteSource& bytes, const LoadedFile& file) {
  for (int i = 0; i < file.header_count; ++i) {
    const Elf64_Phdr& h = file.headers[i];
    if (h.p_type != PT_LOAD || (h.p_flags & PF_W) != 0) continue;
    const size_t length = h.p_filesz < kCompared ? h.p_filesz : kCompared;
    if (!reads_as_memory(bytes, h.p_offset, file.bias + h.p_vaddr, length)) return false;
  }
  return true;
}

bool is_loaded_file(const ByteSource& bytes, const ElfFile& elf, const LoadedFile& file) {
  if (!elf.has_program_headers(file.headers, static_cast<size_t>(file.header_count))) return false;
  if (file.build_id.size != 0) return elf.build_id() == file.build_id;
  return elf.build_id().size == 0 && file.loaded && has_loaded_bytes(bytes, file);
}

// Both in one mapping.
bool copy_extents(const ByteSource& bytes, const SymbolExtents& table, SymbolTable* out,
                  PageSource& system) {
  const uint64_t all = table.symbols.size + table.strings.size + 1;
  if (all > kMostCopied) return false;
  out->mapped = align_up(all, kSmallPage);
  out->mapping = system.map(out->mapped, kSmallPage);
  if (out->mapping == nullptr) return false;
  char* const memory = static_cast<char*>(out->mapping);
  out->symbols = reinterpret_cast<const Elf64_Sym*>(memory);
  out->strings = memory + table.symbols.size;
  out->string_bytes = table.strings.size;
  if (!bytes.read(table.symbols.offset, memory, table.symbols.size) ||
      !bytes.read(table.strings.offset, out->strings, table.strings.size))
    return true;  // as if it had none
  out->count = table.symbols.size / sizeof(Elf64_Sym);
  return true;
}

bool has_function(const SymbolTable& table) {
  return std::any_of(table.symbols, table.symbols + table.count,
                     [&](const Elf64_Sym& s) { return is_function(s, table.string_bytes); });
}

// .symtab if it holds a function, else .dynsym.
bool copy_functions(const ByteSource& bytes, const ElfFile& elf, SymbolTable* out,
                    PageSource& system) {
  for (const uint32_t type : {uint32_t{SHT_SYMTAB}, uint32_t{SHT_DYNSYM}}) {
    SymbolExtents table;
    if (!elf.find_symbols(type, &table)) continue;
    if (!copy_extents(bytes, table, out, system)) return false;
    if (has_function(*out)) break;
    unmap_table(*out, system);
    *out = {};
  }
  return true;
}

bool is_equal(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

void unmap_table(const SymbolTable& table, PageSource& system) {
  if (table.mapping != nullptr) system.unmap(table.mapping, table.mapped);
}

bool SymbolFile::Stamp::operator==(const Stamp& o) const {
  return device == o.device && inode == o.inode && size == o.size &&
         is_equal(modified, o.modified) && is_equal(changed, o.changed);
}

bool SymbolFile::stamp_of(int fd, Stamp* out) {
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) return false;
  *out = {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), status.st_mtim,
          status.st_ctim};
  return true;
}

int SymbolFile::open(const LoadedFile& file) {
  const int fd = off_standard(::open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  starved_ = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EINTR);
  return fd;
}

size_t SymbolFile::name_at(const LoadedFile& file, uint64_t address, char* out, size_t room,
                           PageSource& system) {
  starved_ = false;
  if (tried_ && index_.is_empty()) return 0;
  const int fd = open(file);
  if (fd < 0) return 0;
  const size_t length = read_name(fd, file, address, out, room, system);
  ::close(fd);
  return length;
}

size_t SymbolFile::read_name(int fd, const LoadedFile& file, uint64_t address, char* out,
                             size_t room, PageSource& system) {
  Stamp now, after;
  if (!stamp_of(fd, &now)) return 0;
  const FileBytes bytes(fd, now.size);
  if (!tried_) {
    const ElfFile elf(bytes);
    if (!is_loaded_file(bytes, elf, file)) return refuse(system);
    stamp_ = now;
    index(bytes, elf, system);
  }
  const size_t length = copy_name(bytes, address, out, room);
  if (now != stamp_ || !stamp_of(fd, &after) || after != now) return refuse(system);
  starved_ = !tried_;
  return length;
}

bool SymbolFile::copy_table(const LoadedFile& file, SymbolTable* out, PageSource& system) {
  *out = {};
  const int fd = open(file);
  if (fd < 0) return !starved_;
  Stamp before, after;
  if (stamp_of(fd, &before)) {
    const FileBytes bytes(fd, before.size);
    const ElfFile elf(bytes);
    if (is_loaded_file(bytes, elf, file)) starved_ = !copy_functions(bytes, elf, out, system);
    if (!stamp_of(fd, &after) || after != before) out->count = 0;
  }
  ::close(fd);
  return !starved_;
}

size_t SymbolFile::name_in(ByteRange image, uint64_t address, char* out, size_t room,
                           PageSource& system) {
  const MemoryBytes bytes(image);
  if (!tried_) index(bytes, ElfFile(bytes), system);
  starved_ = !tried_;
  return copy_name(bytes, address, out, room);
}

// .symtab if it holds a function, else .dynsym. Without memory it is tried again for the next name.
void SymbolFile::index(const ByteSource& bytes, const ElfFile& elf, PageSource& system) {
  for (const uint32_t type : {uint32_t{SHT_SYMTAB}, uint32_t{SHT_DYNSYM}}) {
    SymbolExtents table;
    if (!elf.find_symbols(type, &table)) continue;
    if (!index_.build(bytes, table, system)) return;
    if (!index_.is_empty()) break;
  }
  tried_ = true;
}

size_t SymbolFile::copy_name(const ByteSource& bytes, uint64_t address, char* out,
                             size_t room) const {
  const FileExtent name = index_.name_at(bytes, address);
  const size_t length = name.size < room ? name.size : room;
  return bytes.read(name.offset, out, length) ? length : 0;
}

// From now on it names nothing.
size_t SymbolFile::refuse(PageSource& system) {
  index_.clear(system);
  tried_ = true;
  return 0;
}

void SymbolFile::close(PageSource& system) {
  index_.clear(system);
  tried_ = false;
}

}  // namespace llamalloc
