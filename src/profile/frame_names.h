// SPDX-License-Identifier: Apache-2.0
// Gives the frame name and the module of a return address. In a process the Symboliser of
// os/symbols.h implements it; tests use a table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/symbols.h"

namespace llamalloc {

class FrameNames {
 public:
  // The frame name of contracts/stack_tokens.md, 0-terminated and cut to room; its length.
  // image: what has to lie there (StackTrace::images), or 0: whatever does.
  virtual size_t frame_name(uintptr_t return_address, char* out, size_t room, uint64_t image) = 0;
  // The last frame_name may be another one later: the system had no descriptor or memory for it.
  virtual bool was_starved() const { return false; }
  // False: no such module there; *out is then as it was.
  virtual bool module_of(uintptr_t return_address, ModuleInfo* out, uint64_t image) = 0;
  // Another number than before if modules came or went.
  virtual uint64_t changes() = 0;

 protected:
  ~FrameNames() = default;
};

template <typename Symboliser>
class FrameNamesOf final : public FrameNames {
 public:
  explicit FrameNamesOf(Symboliser& symboliser) : symboliser_(symboliser) {}
  size_t frame_name(uintptr_t return_address, char* out, size_t room, uint64_t image) override {
    return symboliser_.frame_name(return_address, out, room, image);
  }
  bool was_starved() const override { return symboliser_.was_starved(); }
  bool module_of(uintptr_t return_address, ModuleInfo* out, uint64_t image) override {
    return symboliser_.module_of(return_address, out, image);
  }
  uint64_t changes() override { return symboliser_.changes(); }

 private:
  Symboliser& symboliser_;
};

}  // namespace llamalloc
