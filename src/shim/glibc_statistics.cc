// SPDX-License-Identifier: Apache-2.0
// glibc's calls that look at a heap or tune it; docs/api.md has the mapping of their fields and
// parameters.
#include <malloc.h>

#include <cerrno>
#include <climits>
#include <cstdio>

#include "runtime/figures.h"
#include "runtime/output.h"
#include "runtime/values.h"
#include "shim/call_site.h"
#include "telemetry/glibc_text.h"
#include "telemetry/glibc_xml.h"

using namespace llamalloc;

static_assert(static_cast<int>(GlibcParameter::mxfast) == M_MXFAST);
static_assert(static_cast<int>(GlibcParameter::trim_threshold) == M_TRIM_THRESHOLD);
static_assert(static_cast<int>(GlibcParameter::top_pad) == M_TOP_PAD);
static_assert(static_cast<int>(GlibcParameter::mmap_threshold) == M_MMAP_THRESHOLD);
static_assert(static_cast<int>(GlibcParameter::mmap_max) == M_MMAP_MAX);
static_assert(static_cast<int>(GlibcParameter::check_action) == M_CHECK_ACTION);
static_assert(static_cast<int>(GlibcParameter::perturb) == M_PERTURB);
static_assert(static_cast<int>(GlibcParameter::arena_test) == M_ARENA_TEST);
static_assert(static_cast<int>(GlibcParameter::arena_max) == M_ARENA_MAX);

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

// glibc's lines first, for who reads them.
LLAMALLOC_EXPORT void malloc_stats(void) {
  write_glibc_text(current_figures(), {write_to_stderr, nullptr});
  print_summary();
}

LLAMALLOC_EXPORT int mallopt(int parameter, int value) {
  return change_glibc_parameter(static_cast<GlibcParameter>(parameter), value);
}

}  // extern "C"
