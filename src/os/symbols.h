// SPDX-License-Identifier: Apache-2.0
// Names of functions and modules for return addresses, inside the process that they belong to.
//
//   return address --> module (loader's list) --> its file, read --> .symtab, else .dynsym
//                                              \--> start of the function by the unwind table
//
// For one thread at a time. It is slow: it opens a file for each name, takes the loader's lock and
// sorts the functions of each new module. It never calls malloc. The caller must hold no lock
// that malloc or free may take: dlclose calls free under the loader's lock. Not while another
// thread forks: the loader's lock would stay locked in the child.
//
// A file that differs from the loaded one (replaced, rewritten, deleted) is not used for names.
// Files are never mapped. Memory: a record for each loaded module, and 12 bytes for each function
// of modules that were queried; names stay in the files. For unloaded modules only the last kGone
// records are kept; a caller that needs their names must ask before (profile/named_frames.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/arena.h"
#include "os/loader.h"

namespace llamalloc {

// The mapping of a module's code around an address, as a profile wants it.
struct ModuleInfo {
  uintptr_t start;  // whole pages
  uintptr_t limit;
  uintptr_t file_offset;  // of start, in bytes
  char path[512];         // as the loader knows it; the main program's: called_path()
  uint8_t build_id[32];
  uint8_t build_id_bytes;  // 0: the module has none
  uint64_t image;          // StackTrace::images of a frame in it; 0: unknown
  // What numbers its frames (base/code_key.h); build 0: unknown.
  uintptr_t low;  // the module's lowest address
  uint64_t build;
};

class Symboliser {
 public:
  static constexpr int kGone = 16;

  Symboliser(MetadataArena& arena, PageSource& system) : arena_(arena), system_(system) {}

  // The frame name of contracts/stack_tokens.md, 0-terminated, cut to room bytes. Its length.
  // image: the module that must be at the address (StackTrace::images), or 0: any.
  size_t frame_name(uintptr_t return_address, char* out, size_t room, uint64_t image = 0);
  // The last name is of the second or third kind only since there was no descriptor or no memory to
  // read the file: it may have another one later.
  bool was_starved() const { return starved_; }
  // False: no such module there; *out is then as it was.
  bool module_of(uintptr_t return_address, ModuleInfo* out, uint64_t image = 0);
  // Changes whenever modules are loaded or unloaded.
  uint64_t changes();

  struct Module;

 private:
  Module* find_module(uintptr_t address, uint64_t image);
  void refresh();
  void take_in(Module& found);
  void retire_unloaded();

  MetadataArena& arena_;
  PageSource& system_;
  Module* modules_ = nullptr;  // loaded; linked by next, as those below
  Module* gone_ = nullptr;     // unloaded, the latest first
  Module* free_ = nullptr;
  LoaderCounts counts_;  // when the list was made
  bool starved_ = false;
};

}  // namespace llamalloc
