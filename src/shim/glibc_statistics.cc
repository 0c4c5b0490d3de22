// SPDX-License-Identifier: Apache-2.0
// glibc's calls that look at a heap or tune it, answered for ours; docs/api.md has the mapping of
// their fields and parameters.
#include <malloc.h>

#include <cerrno>
#include <climits>
#include <cstdio>

#include "base/print_plain.h"
#include "runtime/figures.h"
#include "runtime/output.h"
#include "runtime/process.h"
#include "shim/call_site.h"
#include "telemetry/glibc_xml.h"

using namespace llamalloc;

namespace {

int clamped(size_t n) {
  return n > INT_MAX ? INT_MAX : static_cast<int>(n);
}

// The program's stream, which may allocate: no lock is held.
class StreamSink final : public ByteSink {
 public:
  explicit StreamSink(FILE* out) : out_(out) {}
  bool write(const void* data, size_t bytes) override {
    return fwrite(data, 1, bytes, out_) == bytes;
  }

 private:
  FILE* out_;
};

}  // namespace

extern "C" {

LLAMALLOC_EXPORT struct mallinfo2 mallinfo2(void) {
  const Figures figures = current_figures();
  struct mallinfo2 info{};
  info.arena = figures.pages_backed;
  info.ordblks = figures.free_slots;
  info.hblks = figures.direct_count;
  info.hblkhd = figures.direct_bytes;
  info.uordblks = figures.allocated;
  info.fordblks = figures.pages_backed - figures.allocated;
  info.keepcost = figures.releasable;
  return info;
}

LLAMALLOC_EXPORT struct mallinfo mallinfo(void) {
  const struct mallinfo2 wide = mallinfo2();
  struct mallinfo info{};
  info.arena = clamped(wide.arena);
  info.ordblks = clamped(wide.ordblks);
  info.hblks = clamped(wide.hblks);
  info.hblkhd = clamped(wide.hblkhd);
  info.uordblks = clamped(wide.uordblks);
  info.fordblks = clamped(wide.fordblks);
  info.keepcost = clamped(wide.keepcost);
  return info;
}

LLAMALLOC_EXPORT int malloc_info(int options, FILE* out) {
  if (options != 0 || out == nullptr) {
    errno = EINVAL;
    return -1;
  }
  StreamSink sink(out);
  return write_glibc_xml(current_figures(), sink) ? 0 : -1;
}

// glibc's lines first, for who reads them; without its maxima of mappings, which we do not keep.
LLAMALLOC_EXPORT void malloc_stats(void) {
  const Figures figures = current_figures();
  print_plain("Arena 0:\nsystem bytes     = %10zu\nin use bytes     = %10zu\n",
              figures.pages_backed, figures.allocated);
  print_plain("Total (incl. mmap):\nsystem bytes     = %10zu\nin use bytes     = %10zu\n",
              figures.pages_backed + figures.direct_bytes,
              figures.allocated + figures.direct_bytes);
  print_summary();
}

// What our heap has no use for is taken and has no effect, within the ranges of the manual page.
LLAMALLOC_EXPORT int mallopt(int parameter, int value) {
  switch (parameter) {
    case M_MXFAST:
      return value >= 0 && static_cast<size_t>(value) <= 80 * sizeof(size_t) / 4;
    case M_MMAP_THRESHOLD:
      return value >= 0 && value <= 32 << 20;
    case M_ARENA_TEST:
    case M_ARENA_MAX:
      return value > 0;
    case M_CHECK_ACTION:
      Options::change(&process.options.on_misuse.value,
                      (value & 2) != 0 ? OnMisuse::abort : OnMisuse::report);
      return 1;
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_MAX:
    case M_PERTURB:
      return 1;
    default:
      return 0;
  }
}

}  // extern "C"
