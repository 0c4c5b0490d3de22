// SPDX-License-Identifier: Apache-2.0
// A module that the symboliser knows: its address range and, after the first query, its file.
#pragma once

#include <link.h>

#include "os/linux/elf_file.h"
#include "os/linux/symbols_file.h"
#include "os/symbols.h"

namespace llamalloc {

struct CodeSegment {
  uintptr_t start, limit, file_offset;  // start and limit relative to the load bias
};

struct Symboliser::Module {
  static constexpr int kCodeSegments = 4;
  static constexpr int kMaxHeaders = 64;

  Module* next = nullptr;
  bool loaded = false;  // in the loader's list when that was last read
  bool is_main = false;
  bool is_vdso = false;
  uintptr_t bias = 0;  // address in memory = bias + address in the file
  uintptr_t start = 0;
  uintptr_t limit = 0;
  char path[sizeof(ModuleInfo::path)] = {};
  BuildId build_id;
  uint64_t image = 0;  // 0: unknown
  Elf64_Phdr headers[kMaxHeaders];
  int header_count = 0;
  CodeSegment code[kCodeSegments];
  int code_count = 0;
  SymbolFile file;

  // From the loader's description, under its lock; false: not a module that we can describe.
  bool describe(const dl_phdr_info& info);
  // Whether both are the same file at the same place, as far as memory can tell.
  bool is_same(const Module& other) const;
  // Reads the image, if that failed in describe() because the loader was still changing it.
  void read_late_image();
  // As SymbolFile::name_at().
  size_t name_at(uint64_t address, char* out, size_t room, PageSource& system);
  // As SymbolFile::copy_table().
  bool copy_table(SymbolTable* out, PageSource& system) {
    return file.copy_table(loaded_file(), out, system);
  }
  bool was_starved() const { return file.was_starved(); }
  bool contains(uintptr_t address) const { return address - start < limit - start; }
  bool is(uintptr_t address, uint64_t wanted) const {
    return contains(address) && (wanted == 0 || wanted == image);
  }
  const char* base_name() const;

 private:
  LoadedFile loaded_file() const {
    return {
        is_main ? "/proc/thread-self/exe" : path, headers, header_count, build_id, bias, loaded};
  }
  bool is_mapped(const Elf64_Phdr& part) const;  // wholly in a loaded segment's file part
  void find_segments();
  void read_build_id();
  uint64_t read_image() const;
};

}  // namespace llamalloc
