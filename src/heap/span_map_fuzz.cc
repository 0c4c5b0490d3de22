// SPDX-License-Identifier: Apache-2.0
// SpanMap against std::map: over all of the address space, across the borders of leaves, and with a
// system that runs out of memory.
//   seven bytes a step: what, where, how many blocks
#include "heap/span_map.h"

#include <map>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "os/fake/fuzz_pages.h"

namespace llamalloc {
namespace {

class Run {
 public:
  Run(FuzzInput input, FuzzPages& system, SpanMap& map)
      : input_(input), system_(system), map_(map) {}

  void run() {
    while (input_.more()) step();
    for (const auto& [block, span] : oracle_)
      CHECK(map_.find(reinterpret_cast<void*>(block << kBlockShift)) == span);
  }

 private:
  static constexpr uint64_t kLimit = uint64_t{1} << (47 - kBlockShift);

  void step() {
    const uint8_t what = input_.byte();
    // Near the borders of leaves, of which a few are used again and again, or anywhere.
    uint64_t block = input_.below(65536) * (what & 64 ? uint64_t{1} << 19 : 1);
    if (what & 128) block = uint64_t{input_.byte() % 8u} << 17 | block % 64;
    const uint32_t n = 1 + input_.below(64);
    const void* start = reinterpret_cast<void*>(block << kBlockShift);
    system_.calls_left = what & 32 ? input_.byte() % 3 : INT64_MAX;
    const auto probe = reinterpret_cast<uintptr_t>(start) + input_.below(65536);
    const auto known = oracle_.find(probe >> kBlockShift);
    CHECK(map_.find(reinterpret_cast<void*>(probe)) ==
          (known == oracle_.end() ? nullptr : known->second));
    if (!map_.cover(start, n * kBlockSize, system_)) {
      CHECK(system_.calls_left == 0 || block + n > kLimit);
      return;
    }
    CHECK_LE(block + n, kLimit);
    Span* span = what & 1 ? reinterpret_cast<Span*>(++spans_ * 64) : nullptr;
    map_.set(start, Blocks{n}, span);
    for (uint32_t i = 0; i < n; ++i) oracle_[block + i] = span;
  }

  FuzzInput input_;
  FuzzPages& system_;
  SpanMap& map_;
  std::map<uint64_t, Span*> oracle_;
  uintptr_t spans_ = 0;
};

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return llamalloc::fuzz_with_table<llamalloc::Run, llamalloc::SpanMap>(data, size);
}
