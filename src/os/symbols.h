// SPDX-License-Identifier: Apache-2.0
// Names of functions and modules for return addresses, inside the process that they belong to.
//
//   return address --> module (loader's list) --> its file, mapped --> .symtab, else .dynsym
//                                              \--> start of the function by the unwind table
//
// For one thread at a time, at leisure: it opens files, takes the loader's lock and, the first time
// that it meets a module, sorts its functions (4 bytes each, kept). It never allocates from malloc.
// Whoever calls must hold no lock that malloc or free may want: dlclose frees under the loader's
// lock. Not while another thread forks: the child could not use the loader's lock.
//
// A file that is not the one that was loaded (replaced, deleted) names nothing. Modules already
// unloaded are still named where their addresses were not reused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/arena.h"

namespace llamalloc {

// The mapping of a module's code around an address, as a profile wants it.
struct ModuleInfo {
  uintptr_t start;  // whole pages
  uintptr_t limit;
  uintptr_t file_offset;  // of start, in bytes
  char path[512];         // as the loader knows it; the main program's is absolute
  uint8_t build_id[32];
  uint8_t build_id_bytes;  // 0: the module has none
};

class Symboliser {
 public:
  explicit Symboliser(MetadataArena& arena) : arena_(arena) {}

  // The frame name of contracts/stack_tokens.md, 0-terminated, cut to room bytes. Its length.
  size_t frame_name(uintptr_t return_address, char* out, size_t room);
  // False: no module there; *out is then as it was.
  bool module_of(uintptr_t return_address, ModuleInfo* out);

  // From time to time: if no name was asked for since the call before the last, the files' pages
  // leave our memory. They are the system's cache, and are mapped again as they are read.
  void rest(PageSource& system);

  struct Module;

 private:
  Module* find_module(uintptr_t address);
  void refresh();
  void forget_overlaid();  // modules that are gone, where others lie now

  MetadataArena& arena_;
  Module* modules_ = nullptr;  // a list; modules stay in it for good
  uint64_t loads_seen_ = 0;    // the loader's counts when the list was made
  uint64_t unloads_seen_ = 0;
  int warmth_ = 0;  // calls of rest() until the files are cold; 0: they are
};

}  // namespace llamalloc
