// SPDX-License-Identifier: Apache-2.0
#include "telemetry/glibc_xml.h"

#include <cstdarg>
#include <cstdio>

namespace llamalloc {
namespace {

class Xml {
 public:
  explicit Xml(ByteSink& sink) : sink_(sink) {}
  void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (n > 0) good_ &= sink_.write(text, static_cast<size_t>(n));
  }
  bool good() const { return good_; }

 private:
  ByteSink& sink_;
  bool good_ = true;
};

void add_sizes(Xml& xml, const Figures& figures) {
  xml.add("<sizes>\n");
  size_t below = 0;
  for (int c = 0; c < kSizeClasses; ++c) {
    const size_t size = kSizeClassRows[c].size;
    const size_t n = figures.free_slots_of[c];
    if (n != 0)
      xml.add("  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n", below + 1, size,
              n * size, n);
    below = size;
  }
  xml.add("</sizes>\n");
}

void add_totals(Xml& xml, const Figures& figures) {
  xml.add("<total type=\"fast\" count=\"0\" size=\"0\"/>\n");
  xml.add("<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n", figures.free_slots,
          figures.pages_backed - figures.allocated);
  xml.add("<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", figures.direct_count,
          figures.direct_bytes);
  xml.add("<system type=\"current\" size=\"%zu\"/>\n", figures.pages_backed);
  xml.add("<system type=\"max\" size=\"%zu\"/>\n", figures.peak_backed);
  xml.add("<aspace type=\"total\" size=\"%zu\"/>\n", figures.reserved);
  xml.add("<aspace type=\"mprotect\" size=\"%zu\"/>\n", figures.reserved);
}

}  // namespace

bool write_glibc_xml(const Figures& figures, ByteSink& sink) {
  Xml xml(sink);
  xml.add("<malloc version=\"1\">\n<heap nr=\"0\">\n");
  add_sizes(xml, figures);
  add_totals(xml, figures);
  xml.add("</heap>\n");
  add_totals(xml, figures);
  xml.add("</malloc>\n");
  return xml.good();
}

}  // namespace llamalloc
