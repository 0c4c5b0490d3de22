// SPDX-License-Identifier: Apache-2.0
// The functions of a module's file. The file is never mapped: if a mapped file is truncated, the
// process that reads it is killed. It is opened for each name, and names nothing if it is not the
// file that was loaded, or was changed since.
//
// Only the headers, the build-id, the symbols and single names are read, whatever else it holds.
#pragma once

#include <elf.h>
#include <sys/stat.h>

#include "os/linux/elf_file.h"
#include "os/linux/symbols_index.h"

namespace llamalloc {

// What the loaded image tells about the file that a module came from.
struct LoadedFile {
  const char* path;
  const Elf64_Phdr* headers;
  int header_count;
  const BuildId& build_id;
  uintptr_t bias;
  bool loaded;  // still loaded; without a build-id the file must equal the memory
};

// The symbols of a file in memory of their own.
struct SymbolTable {
  void* mapping = nullptr;
  size_t mapped = 0;
  const Elf64_Sym* symbols = nullptr;
  size_t count = 0;
  char* strings = nullptr;  // with a 0 behind them
  uint64_t string_bytes = 0;
};
void unmap_table(const SymbolTable& table, PageSource& system);

class SymbolFile {
 public:
  // Writes the name of the function around an address of the file, cut to room bytes, without an
  // end. Its length; 0: there is none, or the file cannot be read.
  size_t name_at(const LoadedFile& file, uint64_t address, char* out, size_t room,
                 PageSource& system);
  // The same for an image in memory that cannot change.
  size_t name_in(ByteRange image, uint64_t address, char* out, size_t room, PageSource& system);
  // Copies the symbols and their strings. False: they cannot be read for want of a descriptor or
  // memory. Empty: it has no function with a name, or cannot be read. For unmap_table.
  bool copy_table(const LoadedFile& file, SymbolTable* out, PageSource& system);
  // The last call named nothing for want of a descriptor or of memory: later it may.
  bool was_starved() const { return starved_; }
  // Gives the memory back; the file is looked at anew.
  void close(PageSource& system);

 private:
  // Changes if the file is written to or replaced.
  struct Stamp {
    uint64_t device = 0, inode = 0, size = 0;
    timespec modified{}, changed{};
    bool operator==(const Stamp& o) const;
  };
  static bool stamp_of(int fd, Stamp* out);
  int open(const LoadedFile& file);

  size_t read_name(int fd, const LoadedFile& file, uint64_t address, char* out, size_t room,
                   PageSource& system);
  void index(const ByteSource& bytes, const ElfFile& elf, PageSource& system);
  size_t copy_name(const ByteSource& bytes, uint64_t address, char* out, size_t room) const;
  size_t refuse(PageSource& system);

  SymbolIndex index_;
  Stamp stamp_;           // when the index was made
  bool tried_ = false;    // to make the index; an empty one names nothing
  bool starved_ = false;  // in the last call
};

}  // namespace llamalloc
