// SPDX-License-Identifier: Apache-2.0
// The live heap map: a page for a browser (heap_map.html), and what it asks for again and again:
// every huge page of a snapshot in a few numbers (contracts/heap_map.md), piece by piece.
#pragma once

#include "telemetry/snapshot.h"

namespace llamalloc {

// heap_map.html, compressed by gzip when the library is built (heap_map.cmake).
extern const unsigned char kHeapMapPage[];
extern const size_t kHeapMapPageBytes;

class HeapMapJson {
 public:
  HeapMapJson() = default;
  explicit HeapMapJson(const ProcessSnapshot& snapshot) : snapshot_(&snapshot) {}
  // Adds the next piece to an empty text. False: it was the last.
  bool add_next(Text* out);

 private:
  void add_head(Text* out) const;
  void add_page(const PageRow& page, Text* out) const;

  const ProcessSnapshot* snapshot_ = nullptr;
  uint32_t next_ = 0;
  bool in_pages_ = false;
};

}  // namespace llamalloc
