// SPDX-License-Identifier: Apache-2.0
// Tracks loaded and unloaded modules, so that data about a module's code can be dropped in time.
//
//   address --mark_of()--> 0: a module loaded at start, which stays
//                          one of seven bits: a module loaded later; the bits are reused in turn
//                          kUnknown: no known module (code made at run time, or too many modules)
//   look() --> the marks of the modules unloaded since
//
// Address and build-id identify a module. A module without build-id counts as unloaded whenever any
// module was unloaded, since another could be at its address. For one thread only. look() takes the
// loader's lock, so it must not be called inside malloc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/arena.h"
#include "os/loader.h"

struct dl_phdr_info;

namespace llamalloc {

class ModuleWatch {
 public:
  static constexpr uint8_t kUnknown = 1;

  // Treats all modules loaded now as permanent. False: no memory.
  bool open(MetadataArena& arena);

  // The marks of all modules unloaded since the last call, and kUnknown; 0: none was. Cheap if so.
  uint8_t look();

  uint8_t mark_of(uintptr_t return_address) const;
  // Whether the address lies in a module that is still loaded and that was already loaded before
  // the last look() found new ones.
  bool stayed(uintptr_t return_address) const;

  bool is_consistent() const;

 private:
  static constexpr size_t kMost = 1024;

  struct Module {
    uintptr_t low = 0;
    uintptr_t high = 0;
    uint32_t born = 0;  // the look that saw it first
    uint32_t seen = 0;  // and last
    BuildId build_id;
    uint8_t mark = 0;
  };
  static bool describe(const dl_phdr_info& info, Module* out);
  void meet(Module& found, bool unloads);
  uint8_t drop_unseen();
  const Module* find(uintptr_t return_address) const;

  Module* modules_ = nullptr;
  size_t count_ = 0;
  size_t expected_ = 0;  // where the next of the loader's list probably is in ours
  uint32_t looks_ = 0;
  uint32_t later_ = 0;   // modules that came after the start
  LoaderCounts counts_;  // at the last look
};

}  // namespace llamalloc
