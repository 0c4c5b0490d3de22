// SPDX-License-Identifier: Apache-2.0
// The pool's view of a table by address in the layer above (the heap's span map). The table must
// cover pages before they are used, and the part that describes unused pages can be returned to the
// system.
#pragma once

#include <cstddef>

namespace llamalloc {

class PageTables {
 public:
  // Makes the tables cover the space; false: no memory.
  virtual bool cover(const char* start, size_t bytes) = 0;
  // Whether one small page of the tables describes both huge pages.
  virtual bool share_memory(const char* page, const char* other) const = 0;
  // Returns the memory that describes the huge page to the system. Neither it nor the page that
  // shares the memory has entries, and nobody adds one meanwhile.
  virtual void discard(const char* page) = 0;

 protected:
  ~PageTables() = default;
};

// For a layer above that has no tables by address.
class NoPageTables final : public PageTables {
 public:
  bool cover(const char*, size_t) override { return true; }
  bool share_memory(const char*, const char*) const override { return false; }
  void discard(const char*) override {}
};

}  // namespace llamalloc
