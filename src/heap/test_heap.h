// SPDX-License-Identifier: Apache-2.0
// For tests: a heap on simulated memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "heap/heap.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {

class OnFakeMemory : public testing::Test {
 protected:
  char* one(PageGroup group, size_t size) {
    return static_cast<char*>(heap_.take_one(bin_of(group, size_class_of(size), false)));
  }
  HugePage* page_of(const void* p) { return heap_.find(p)->page; }

  FakePages system_;
  MetadataArena arena_{system_};
  std::unique_ptr<HeapTables> tables_ = std::make_unique<HeapTables>();
  Heap heap_{system_, arena_, *tables_};
};

}  // namespace llamalloc
