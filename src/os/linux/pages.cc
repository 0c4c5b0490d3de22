// SPDX-License-Identifier: Apache-2.0
#include "os/pages.h"

#include <sys/mman.h>
#include <time.h>

#include <cerrno>

namespace llamalloc {
namespace {

constexpr size_t kSmallPage = 4096;

// Keeps errno as it was: free must not change it, and malloc sets it itself.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }

 private:
  int saved_;
};

void* map_aligned(size_t bytes, size_t alignment, int protection) {
  const size_t slack = alignment > kSmallPage ? alignment : 0;
  if (bytes + slack < bytes) return nullptr;
  void* raw = mmap(nullptr, bytes + slack, protection,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const size_t start = reinterpret_cast<size_t>(raw);
  const size_t aligned = align_up(start, alignment);
  if (aligned > start) munmap(raw, aligned - start);
  const size_t tail = start + slack - aligned;
  if (tail) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  return reinterpret_cast<void*>(aligned);
}

class LinuxPages final : public PageSource {
 public:
  void* reserve(size_t bytes, size_t alignment) override {
    KeepErrno keep;
    return map_aligned(bytes, alignment, PROT_NONE);
  }
  bool commit(void* address, size_t bytes) override {
    KeepErrno keep;
    return mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
  }
  void advise_huge(void* address, size_t bytes, bool huge) override {
    KeepErrno keep;
    madvise(address, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  bool discard(void* address, size_t bytes) override {
    KeepErrno keep;
    int result;
    do result = madvise(address, bytes, MADV_DONTNEED);
    while (result != 0 && errno == EAGAIN);
    return result == 0;
  }
  void* map(size_t bytes, size_t alignment) override {
    KeepErrno keep;
    return map_aligned(bytes, alignment, PROT_READ | PROT_WRITE);
  }
  bool unmap(void* address, size_t bytes) override {
    KeepErrno keep;
    return munmap(address, bytes) == 0;
  }
  void* remap(void* address, size_t old_bytes, size_t new_bytes) override {
    KeepErrno keep;
    void* moved = mremap(address, old_bytes, new_bytes, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? nullptr : moved;
  }
  Nanos now() override {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return {time.tv_sec * 1'000'000'000 + time.tv_nsec};
  }
};

constinit LinuxPages linux_pages;

}  // namespace

PageSource& system_pages() { return linux_pages; }

}  // namespace llamalloc
