// SPDX-License-Identifier: Apache-2.0
// For tests: direct mappings on simulated memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "heap/direct_mappings.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {

class OnFakeMappings : public testing::Test {
 protected:
  void deallocate(Span* span) {
    map_->set(span->base, {1}, nullptr);
    direct_.deallocate(span);
  }

  FakePages system_;
  MetadataArena arena_{system_};
  std::unique_ptr<SpanMap> map_ = std::make_unique<SpanMap>();
  NoPageTables tables_;
  PageSets sets_;
  PageHeap pages_{system_, arena_, tables_, sets_};
  DirectMappings direct_{system_, arena_, *map_, pages_};
};

}  // namespace llamalloc
