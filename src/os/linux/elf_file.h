// SPDX-License-Identifier: Apache-2.0
// A 64-bit little-endian ELF file, read piece by piece with every offset checked.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>

#include "os/loader.h"

namespace llamalloc {

struct ByteRange {
  const uint8_t* data = nullptr;
  size_t size = 0;
};

// Where the bytes of a file come from, all of them or the pieces that are asked for.
class ByteSource {
 public:
  uint64_t size() const { return size_; }
  // False: not all of it is there, or it cannot be read; *out may then be anything.
  virtual bool read(uint64_t offset, void* out, size_t bytes) const = 0;

 protected:
  explicit ByteSource(uint64_t size) : size_(size) {}
  ~ByteSource() = default;
  bool holds(uint64_t offset, size_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }

 private:
  const uint64_t size_;
};

class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(ByteRange bytes) : ByteSource(bytes.size), data_(bytes.data) {}
  bool read(uint64_t offset, void* out, size_t bytes) const override;

 private:
  const uint8_t* const data_;
};

// A piece of a file.
struct FileExtent {
  uint64_t offset = 0;
  uint64_t size = 0;
};

struct SymbolExtents {
  FileExtent symbols;
  FileExtent strings;
};

class ElfFile {
 public:
  explicit ElfFile(const ByteSource& bytes);  // which must outlive it

  bool ok() const { return ok_; }
  // The first table of the type (SHT_SYMTAB, SHT_DYNSYM) and its strings, both inside of the file;
  // false: there is none.
  bool find_symbols(uint32_t type, SymbolExtents* out) const;
  // Whether the file's program headers are byte for byte these.
  bool has_program_headers(const Elf64_Phdr* headers, size_t count) const;
  // Of the NT_GNU_BUILD_ID note.
  BuildId build_id() const;

 private:
  bool section(uint64_t i, Elf64_Shdr* out) const;
  bool is_inside(const Elf64_Shdr& section) const;

  const ByteSource& bytes_;
  Elf64_Ehdr header_{};
  uint64_t sections_ = 0;
  bool ok_ = false;
};

// The build-id among the notes that lie there, in a segment of that p_align.
BuildId find_build_id(const ByteSource& bytes, FileExtent notes, uint64_t alignment);

}  // namespace llamalloc
