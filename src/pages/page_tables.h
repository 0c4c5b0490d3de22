// SPDX-License-Identifier: Apache-2.0
// What the layer above keeps about addresses (the heap's span map), as far as the pool has to know:
// it must cover pages before they are used, and what describes unused pages can be given back.
#pragma once

#include <cstddef>

namespace llamalloc {

class PageTables {
 public:
  // Makes the tables cover the space; false: no memory.
  virtual bool cover(const char* start, size_t bytes) = 0;
  // Whether one small page of the tables describes both huge pages.
  virtual bool share_memory(const char* page, const char* other) const = 0;
  // Gives the memory that describes the huge page back to the system: neither it nor the page that
  // shares the memory has entries, and nobody makes one meanwhile.
  virtual void discard(const char* page) = 0;

 protected:
  ~PageTables() = default;
};

// For a layer above that keeps no tables by address.
class NoPageTables final : public PageTables {
 public:
  bool cover(const char*, size_t) override { return true; }
  bool share_memory(const char*, const char*) const override { return false; }
  void discard(const char*) override {}
};

}  // namespace llamalloc
