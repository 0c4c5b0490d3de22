// SPDX-License-Identifier: Apache-2.0
#include "os/linux/symbols_file.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "base/units.h"
#include "os/descriptor.h"

namespace llamalloc {
namespace {

constexpr size_t kCompared = 1 << 20;  // bytes of each segment

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

bool is_equal(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

bool read_own_memory(uintptr_t from, void* out, size_t bytes) {
  const iovec to{out, bytes}, source{reinterpret_cast<void*>(from), bytes};
  const ssize_t n = process_vm_readv(getpid(), &to, 1, &source, 1, 0);
  if (n >= 0 || errno == EFAULT) return n == static_cast<ssize_t>(bytes);
  memcpy(out, source.iov_base, bytes);  // a sandbox refuses the call
  return true;
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

void SymbolFile::open(const LoadedFile& file, PageSource& system) {
  if (tried_ || refused_) return;
  tried_ = true;
  const int fd = off_standard(::open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd < 0) return;
  if (!read(fd, file, system)) drop_tables(system);
  ::close(fd);
}

bool SymbolFile::read(int fd, const LoadedFile& file, PageSource& system) {
  Stamp stamp, after;
  if (!stamp_of(fd, &stamp)) return false;
  const FileBytes bytes(fd, stamp.size);
  const ElfFile elf(bytes);
  if ((indexed_ != 0 && !(stamp == stamp_)) || !is_loaded_file(bytes, elf, file))
    return refuse(system), false;
  stamp_ = stamp;
  if (!read_tables(bytes, elf, system)) return false;
  if (!stamp_of(fd, &after) || !(after == stamp)) return refuse(system), false;
  return true;
}

void SymbolFile::use(ByteRange image, PageSource& system) {
  if (tried_) return;
  tried_ = true;
  const MemoryBytes bytes(image);
  if (!read_tables(bytes, ElfFile(bytes), system)) drop_tables(system);
}

// .symtab if it holds a function, else .dynsym; later the same as before.
bool SymbolFile::read_tables(const ByteSource& bytes, const ElfFile& elf, PageSource& system) {
  for (const uint32_t type : {uint32_t{SHT_SYMTAB}, uint32_t{SHT_DYNSYM}}) {
    SymbolExtents extents;
    if ((indexed_ != 0 && type != indexed_) || !elf.find_symbols(type, &extents)) continue;
    if (!read_table(bytes, extents, system)) return false;
    if (indexed_ != 0) return index_.move_to(table_), table_.count() == symbols_;
    if (!index_.build(table_, system)) return false;
    symbols_ = table_.count();
    if (index_.bytes() != 0) return indexed_ = type, true;
    drop_tables(system);
  }
  return true;
}

bool SymbolFile::read_table(const ByteSource& bytes, const SymbolExtents& extents,
                            PageSource& system) {
  const FileExtent symbols = extents.symbols, strings = extents.strings;
  if (symbols.size == 0) return true;
  if (symbols.size > kMostTables || strings.size > kMostTables - symbols.size) return false;
  table_bytes_ = align_up(symbols.size + strings.size, kSmallPage);
  tables_ = static_cast<uint8_t*>(system.map(table_bytes_, kSmallPage));
  if (tables_ == nullptr) return table_bytes_ = 0, false;
  table_ = SymbolTable({tables_, symbols.size}, {tables_ + symbols.size, strings.size});
  return bytes.read(symbols.offset, tables_, symbols.size) &&
         bytes.read(strings.offset, tables_ + symbols.size, strings.size);
}

void SymbolFile::drop_tables(PageSource& system) {
  if (tables_ != nullptr) system.unmap(tables_, table_bytes_);
  tables_ = nullptr;
  table_bytes_ = 0;
  table_ = {};
  index_.move_to({});
}

void SymbolFile::refuse(PageSource& system) {
  close(system);
  tried_ = refused_ = true;
}

void SymbolFile::cool(PageSource& system) {
  drop_tables(system);
  tried_ = false;
}

void SymbolFile::close(PageSource& system) {
  drop_tables(system);
  index_.clear(system);
  tried_ = refused_ = false;
  indexed_ = symbols_ = 0;
}

}  // namespace llamalloc
