// SPDX-License-Identifier: Apache-2.0
// Mappings for one job: the destructor unmaps everything that map() returned. With a MetadataArena
// over it, a writer uses the same tables as other code and leaves no memory behind.
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
