// SPDX-License-Identifier: Apache-2.0
// The process's own memory, read by a call that fails where nothing can be read: of a file that is
// mapped but was cut short, or a page without access.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/linux/elf_file.h"

namespace llamalloc {

// False: not all of it is there, or it may not be read.
bool read_own_memory(uintptr_t from, void* out, size_t bytes);

inline bool is_there(uintptr_t address) {
  char byte;
  return read_own_memory(address, &byte, 1);
}

// Bytes of a loaded module, as the loader describes it.
class LoadedBytes final : public ByteSource {
 public:
  LoadedBytes(uintptr_t start, uint64_t size) : ByteSource(size), start_(start) {}
  bool read(uint64_t offset, void* out, size_t bytes) const override {
    return holds(offset, bytes) && read_own_memory(start_ + offset, out, bytes);
  }

 private:
  const uintptr_t start_;
};

}  // namespace llamalloc
