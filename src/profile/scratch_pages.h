// SPDX-License-Identifier: Apache-2.0
// Mappings for the time of one job: all that map() gave is unmapped by the destructor. A
// MetadataArena over it gives a writer the same tables as the rest of us, and leaves nothing.
//
//   first_ --> [ header page | memory ... ] --> [ header page | memory ... ] --> null
#pragma once

#include <new>

#include "os/pages.h"

namespace llamalloc {

class ScratchPages final : public PageSource {
 public:
  explicit ScratchPages(PageSource& pages) : pages_(pages) {}
  ~ScratchPages() {
    while (first_ != nullptr) {
      const Mapping mapping = *first_;
      pages_.unmap(first_, mapping.bytes);
      first_ = mapping.next;
    }
  }
  ScratchPages(const ScratchPages&) = delete;
  ScratchPages& operator=(const ScratchPages&) = delete;

  // alignment: at most kHeader.
  void* map(size_t bytes, size_t alignment) override {
    if (alignment > kHeader || bytes + kHeader < bytes) return nullptr;
    void* raw = pages_.map(bytes + kHeader, kHeader);
    if (raw == nullptr) return nullptr;
    first_ = new (raw) Mapping{first_, bytes + kHeader};
    return static_cast<char*>(raw) + kHeader;
  }
  Nanos now() override { return pages_.now(); }
  Nanos now_coarse() override { return pages_.now_coarse(); }

  // Single mappings live and die with the job, and nothing is reserved ahead.
  void* reserve(size_t, size_t) override { return nullptr; }
  bool commit(void*, size_t) override { return false; }
  void advise_huge(void*, size_t, bool) override {}
  bool discard(void*, size_t) override { return false; }
  bool unmap(void*, size_t) override { return false; }
  void* remap(void*, size_t, size_t) override { return nullptr; }

 private:
  struct Mapping {
    Mapping* next;
    size_t bytes;  // with the header
  };
  static constexpr size_t kHeader = 4096;

  PageSource& pages_;
  Mapping* first_ = nullptr;
};

}  // namespace llamalloc
