// SPDX-License-Identifier: Apache-2.0
// glibc's calls that look at a heap or tune it, answered for ours; docs/api.md has the mapping of
// their fields and parameters.
#include <malloc.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>

#include "runtime/output.h"
#include "runtime/process.h"
#include "runtime/totals.h"
#include "shim/call_site.h"

using namespace llamalloc;

namespace {

int clamped(size_t n) {
  return n > INT_MAX ? INT_MAX : static_cast<int>(n);
}

// One element after the other into the program's stream, which may allocate: no lock is held.
class Xml {
 public:
  explicit Xml(FILE* out) : out_(out) {}
  void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    char text[256];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n > 0) good_ &= fwrite(text, 1, static_cast<size_t>(n), out_) == static_cast<size_t>(n);
  }
  bool good() const { return good_; }

 private:
  FILE* out_;
  bool good_ = true;
};

void add_sizes(Xml& xml, const HeapTotals& totals) {
  xml.add("<sizes>\n");
  size_t below = 0;
  for (int c = 0; c < kSizeClasses; ++c) {
    const size_t size = kSizeClassRows[c].size;
    const size_t n = totals.free_slots_of[c];
    if (n != 0)
      xml.add("  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n", below + 1, size,
              n * size, n);
    below = size;
  }
  xml.add("</sizes>\n");
}

void add_totals(Xml& xml, const HeapTotals& totals) {
  xml.add("<total type=\"fast\" count=\"0\" size=\"0\"/>\n");
  xml.add("<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n", totals.free_slots,
          totals.backed - totals.allocated);
  xml.add("<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", totals.direct_count,
          totals.direct_bytes);
  xml.add("<system type=\"current\" size=\"%zu\"/>\n", totals.backed);
  xml.add("<system type=\"max\" size=\"%zu\"/>\n", totals.peak_backed);
  xml.add("<aspace type=\"total\" size=\"%zu\"/>\n", totals.reserved);
  xml.add("<aspace type=\"mprotect\" size=\"%zu\"/>\n", totals.reserved);
}

}  // namespace

extern "C" {

LLAMALLOC_EXPORT struct mallinfo2 mallinfo2(void) {
  const HeapTotals totals = count_heap();
  struct mallinfo2 info{};
  info.arena = totals.backed;
  info.ordblks = totals.free_slots;
  info.hblks = totals.direct_count;
  info.hblkhd = totals.direct_bytes;
  info.uordblks = totals.allocated;
  info.fordblks = totals.backed - totals.allocated;
  info.keepcost = totals.releasable;
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
  const HeapTotals totals = count_heap();
  Xml xml(out);
  xml.add("<malloc version=\"1\">\n<heap nr=\"0\">\n");
  add_sizes(xml, totals);
  add_totals(xml, totals);
  xml.add("</heap>\n");
  add_totals(xml, totals);
  xml.add("</malloc>\n");
  return xml.good() ? 0 : -1;
}

LLAMALLOC_EXPORT void malloc_stats(void) {
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
