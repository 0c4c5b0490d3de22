// SPDX-License-Identifier: Apache-2.0
// A module that the symboliser has met: where it lies, and, once somebody asked, its file.
#pragma once

#include <link.h>

#include "os/linux/elf_file.h"
#include "os/linux/symbols_index.h"
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
  bool opened = false;  // the file was tried
  bool is_main = false;
  bool is_vdso = false;
  uintptr_t bias = 0;  // address in memory = bias + address in the file
  uintptr_t start = 0;
  uintptr_t limit = 0;
  char path[sizeof(ModuleInfo::path)] = {};
  uint8_t build_id[sizeof(ModuleInfo::build_id)] = {};
  uint8_t build_id_bytes = 0;
  Elf64_Phdr headers[kMaxHeaders];
  int header_count = 0;
  CodeSegment code[kCodeSegments];
  int code_count = 0;
  SymbolIndex index;
  ByteRange file;  // as mapped; empty: it is not

  // From the loader's description; false: not a module that we can describe.
  bool describe(const dl_phdr_info& info);
  // Whether both come from the same file as far as memory can tell.
  bool is_same_file(const Module& other) const;
  // Maps the file and sorts its functions, once.
  void open(MetadataArena& arena);
  bool contains(uintptr_t address) const { return address - start < limit - start; }
  const char* base_name() const;

 private:
  bool is_mapped(const Elf64_Phdr& part) const;  // wholly in a loaded segment's file part
};

}  // namespace llamalloc
