// SPDX-License-Identifier: Apache-2.0
// Names of functions and modules for return addresses, inside the process that they belong to.
//
//   return address --> module (loader's list) --> its file, read --> .symtab, else .dynsym
//                                              \--> start of the function by the unwind table
//
// For one thread at a time, at leisure: it opens files, takes the loader's lock and, the first time
// that it meets a module, sorts its functions (4 bytes each). It never allocates from malloc.
// Whoever calls must hold no lock that malloc or free may want: dlclose frees under the loader's
// lock. Not while another thread forks: the child could not use the loader's lock.
//
// A file that is not the one that was loaded (replaced, rewritten, deleted) names nothing, and none
// is ever mapped. What is held: a record for each module that is loaded, 4 bytes for each function
// of those that were asked about, and, while names are asked for, symbol tables, kWarmTables bytes
// and one module's. A module that was unloaded has a record only, the last kGone of them; who wants
// its names for longer asks in time (profile/named_frames.h).
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
  char path[512];         // as the loader knows it; the main program's is absolute
  uint8_t build_id[32];
  uint8_t build_id_bytes;  // 0: the module has none
  uint64_t image;          // StackTrace::images of a frame in it; 0: unknown
};

class Symboliser {
 public:
  static constexpr size_t kWarmTables = size_t{256} << 20;
  static constexpr int kGone = 16;

  Symboliser(MetadataArena& arena, PageSource& system) : arena_(arena), system_(system) {}

  // The frame name of contracts/stack_tokens.md, 0-terminated, cut to room bytes. Its length.
  // image: what has to lie there (StackTrace::images), or 0: whatever does.
  size_t frame_name(uintptr_t return_address, char* out, size_t room, uint64_t image = 0);
  // False: no such module there; *out is then as it was.
  bool module_of(uintptr_t return_address, ModuleInfo* out, uint64_t image = 0);
  // Another number than before if modules came or went.
  uint64_t changes();

  // From time to time: if no name was asked for since the call before the last, the symbol tables
  // leave our memory; they are read again if need be.
  void rest();

  struct Module;

 private:
  Module* find_module(uintptr_t address, uint64_t image);
  void refresh();
  void take_in(Module& found);
  void retire_unloaded();
  void open(Module& module);
  void cool_all();

  MetadataArena& arena_;
  PageSource& system_;
  Module* modules_ = nullptr;  // loaded; linked by next, as those below
  Module* gone_ = nullptr;     // unloaded, the latest first
  Module* free_ = nullptr;
  LoaderCounts counts_;  // when the list was made
  int warmth_ = 0;       // calls of rest() until the tables are cold; 0: they are
};

}  // namespace llamalloc
