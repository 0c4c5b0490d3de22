// SPDX-License-Identifier: Apache-2.0
// The symbol table of a module's file, read into our memory. The file is never mapped: if a mapped
// file is truncated, the process that reads it is killed.
//
//   unread --open()--> open --cool()--> cold --open()--> open     cold: the order of the functions
//      |                 |                |                        is kept, the tables are not
//      +----- refused <--+----------------+   it is not the file that was loaded, or was changed
//
// Only the headers, the build-id and two sections are read, whatever else the file holds.
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

class SymbolFile {
 public:
  static constexpr size_t kMostTables = size_t{512} << 20;  // bytes; a larger one names nothing

  // Reads the tables, if the file is the one that was loaded and can be read. Again if it is open.
  void open(const LoadedFile& file, PageSource& system);
  // The tables of an image in memory that cannot change.
  void use(ByteRange image, PageSource& system);
  // Gives the tables back and keeps the order of the functions.
  void cool(PageSource& system);
  // Gives everything back; open() begins anew.
  void close(PageSource& system);

  bool is_open() const { return tried_; }
  // The name of the function around an address of the file; empty where none is, or not open.
  ByteRange name_at(uint64_t address) const { return index_.name_at(address); }
  // Memory behind the tables.
  size_t table_bytes() const { return table_bytes_; }

 private:
  // Changes if the file is written to or replaced.
  struct Stamp {
    uint64_t device = 0, inode = 0, size = 0;
    timespec modified{}, changed{};
    bool operator==(const Stamp& o) const;
  };
  static bool stamp_of(int fd, Stamp* out);

  bool read(int fd, const LoadedFile& file, PageSource& system);
  bool read_tables(const ByteSource& bytes, const ElfFile& elf, PageSource& system);
  bool read_table(const ByteSource& bytes, const SymbolExtents& extents, PageSource& system);
  void drop_tables(PageSource& system);
  void refuse(PageSource& system);

  SymbolIndex index_;
  Stamp stamp_;
  bool tried_ = false;
  bool refused_ = false;
  uint32_t indexed_ = 0;       // the type of the table that index_ was made of; 0: it was not
  uint32_t symbols_ = 0;       // of that table
  uint8_t* tables_ = nullptr;  // symbols, then strings
  size_t table_bytes_ = 0;
  SymbolTable table_;
};

// Copies memory of this process that may have been unmapped meanwhile; false: it was.
bool read_own_memory(uintptr_t from, void* out, size_t bytes);

}  // namespace llamalloc
