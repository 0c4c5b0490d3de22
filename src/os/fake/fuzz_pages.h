// SPDX-License-Identifier: Apache-2.0
// A PageSource for fuzzers. All memory comes from one range of address space, which reset()
// empties, so that a million inputs leak nothing. Freed space is not reused before the next
// reset().
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "base/check.h"
#include "os/pages.h"

namespace llamalloc {

class FuzzPages final : public PageSource {
 public:
  static constexpr size_t kSpace = size_t{16} << 30;

  FuzzPages() {
    void* space = mmap(nullptr, kSpace, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(space != MAP_FAILED);
    madvise(space, kSpace, MADV_NOHUGEPAGE);  // a huge page costs 2 MiB of zeroes an input
    base_ = static_cast<char*>(space);
  }
  ~FuzzPages() { munmap(base_, kSpace); }

  void reset() {
    madvise(base_, used_, MADV_DONTNEED);
    mprotect(base_, used_, PROT_READ | PROT_WRITE);
    used_ = 0;
    time = Nanos::seconds(1000);
    calls_left = INT64_MAX;
    refuse_unmap = false;
  }

  void* reserve(size_t bytes, size_t alignment) override { return map(bytes, alignment); }
  bool commit(void* address, size_t bytes) override {
    return allow() && mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
  }
  void advise_huge(void*, size_t, bool) override {}
  Collapse collapse(void*, size_t) override { return allow() ? Collapse::done : Collapse::refused; }
  bool discard(void* address, size_t bytes) override {
    return allow() && madvise(address, bytes, MADV_DONTNEED) == 0;
  }
  bool uncommit(void* address, size_t bytes) override {
    return discard(address, bytes) && mprotect(address, bytes, PROT_NONE) == 0;
  }
  void* map(size_t bytes, size_t alignment) override {
    const uintptr_t start = align_up(reinterpret_cast<uintptr_t>(base_) + used_, alignment);
    const size_t at = start - reinterpret_cast<uintptr_t>(base_);
    if (!allow() || at > kSpace || bytes > kSpace - at) return nullptr;
    used_ = at + bytes;
    return base_ + at;
  }
  bool unmap(void* address, size_t bytes) override {
    return !refuse_unmap && madvise(address, bytes, MADV_DONTNEED) == 0;
  }
  void* remap(void* address, size_t old_bytes, size_t new_bytes) override {
    if (!allow()) return nullptr;
    char* const end = static_cast<char*>(address) + old_bytes;
    const bool last = end == base_ + used_;
    if (new_bytes <= old_bytes) {
      madvise(static_cast<char*>(address) + new_bytes, old_bytes - new_bytes, MADV_DONTNEED);
      return address;
    }
    void* more = map(last ? new_bytes - old_bytes : new_bytes, last ? 1 : kSmallPage);
    if (more == nullptr || last) return more == nullptr ? nullptr : address;
    memcpy(more, address, old_bytes);
    madvise(address, old_bytes, MADV_DONTNEED);
    return more;
  }
  Nanos now() override { return time; }
  Nanos now_coarse() override { return time; }

  Nanos time = Nanos::seconds(1000);
  int64_t calls_left = INT64_MAX;  // after these every call that can fail does
  bool refuse_unmap = false;

 private:
  bool allow() { return calls_left > 0 && calls_left-- > 0; }

  char* base_;
  size_t used_ = 0;
};

// One input for a Run.
template <typename Run>
int fuzz_with_system(const uint8_t* data, size_t size) {
  static FuzzPages system;
  system.reset();
  Run({data, size}, system).run();
  return 0;
}

// One input for a Run that works on a Table.
template <typename Run, typename Table>
int fuzz_with_table(const uint8_t* data, size_t size) {
  static FuzzPages system;
  system.reset();
  void* table = system.map(sizeof(Table), kSmallPage);
  Run({data, size}, system, *new (table) Table).run();
  return 0;
}

}  // namespace llamalloc
