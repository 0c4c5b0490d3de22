// SPDX-License-Identifier: Apache-2.0
// Modules that come and go: who learned something of a module's code asks here when to forget it.
//
//   address --mark_of()--> 0: a module of the start, which stays
//                          one of seven bits: a module that came later; they take turns
//                          kUnknown: no module that we know (made at run time, or too many)
//   look() --> the marks of the modules that went
//
// A module is known again by its place and build-id. One that has none counts as gone whenever any
// went, since another could be in its place. For one thread; look() takes the loader's lock, so not
// inside malloc.
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

  // What is loaded now stays. False: no memory.
  bool open(MetadataArena& arena);

  // Marks of what went since the last call, kUnknown among them; 0: nothing did. Cheap if so.
  uint8_t look();

  uint8_t mark_of(uintptr_t return_address) const;
  // Whether it lies in a module that was there before the loads that the last look saw, and still
  // is.
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
