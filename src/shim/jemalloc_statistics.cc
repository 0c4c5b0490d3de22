// SPDX-License-Identifier: Apache-2.0
// jemalloc's malloc_stats_print: the lines and JSON members that tools read, in its layout, with
// our figures. What jemalloc has and we have not is left out; our own statistics follow.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/print_plain.h"
#include "heap/size_class.h"
#include "runtime/allocator.h"
#include "runtime/figures.h"
#include "shim/call_site.h"

using namespace llamalloc;

namespace {

using Write = void(void* data, const char* text);

void write_to_stderr(void*, const char* text) {
  print_plain("%s", text);
}

struct Printer {
  Write* write;
  void* data;

  [[gnu::format(printf, 2, 3)]] void operator()(const char* format, ...) const {
    char line[192];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    write(data, line);
  }
};

struct Asked {
  bool json;
  bool general;  // version and sizes, which never change
};

// As jemalloc's letters: J gives JSON, g leaves out the general part. The others are of parts that
// we do not have.
Asked asked_by(const char* options) {
  const char* const letters = options == nullptr ? "" : options;
  return {strchr(letters, 'J') != nullptr, strchr(letters, 'g') == nullptr};
}

unsigned long long number(const Figures& figures, Stat which) {
  return figures.stat(which);
}

void print_text(const Printer& print, const Figures& figures, bool general) {
  print("___ Begin jemalloc statistics ___\n");
  if (general) {
    print("Version: \"llamalloc " LLAMALLOC_VERSION "\"\n");
    print("Arenas: 1\nQuantum size: 16\nPage size: %zu\n", kSmallPage);
    print("Number of bin size classes: %d\n", kSizeClasses);
  }
  print("Allocated: %llu, active: %llu, metadata: %llu (n_thp 0), resident: %llu, ",
        number(figures, Stat::allocated), number(figures, Stat::active),
        number(figures, Stat::metadata), number(figures, Stat::resident));
  print("mapped: %llu, retained: %llu\n", number(figures, Stat::mapped),
        number(figures, Stat::retained));
  print("llamalloc statistics\n");
  for (int i = 0; i < kStats; ++i)
    print("  %s: %llu\n", kStatRows[i].name, static_cast<unsigned long long>(figures.stats[i]));
  print("--- End jemalloc statistics ---\n");
}

void print_general_json(const Printer& print) {
  print("\"version\":\"llamalloc " LLAMALLOC_VERSION "\",\"config\":{},\"opt\":{},");
  print("\"arenas\":{\"narenas\":1,\"quantum\":16,\"page\":%zu,\"nbins\":%d,\"bin\":[", kSmallPage,
        kSizeClasses);
  for (int i = 0; i < kSizeClasses; ++i)
    print("%s{\"size\":%u}", i == 0 ? "" : ",", kSizeClassRows[i].size);
  print("]},");
}

void print_json(const Printer& print, const Figures& figures, bool general) {
  print("{\"jemalloc\":{");
  if (general) print_general_json(print);
  print("\"stats\":{\"allocated\":%llu,\"active\":%llu,\"metadata\":%llu,\"metadata_thp\":0,",
        number(figures, Stat::allocated), number(figures, Stat::active),
        number(figures, Stat::metadata));
  print("\"resident\":%llu,\"mapped\":%llu,\"retained\":%llu},\"llamalloc\":{",
        number(figures, Stat::resident), number(figures, Stat::mapped),
        number(figures, Stat::retained));
  for (int i = 0; i < kStats; ++i)
    print("%s\"%s\":%llu", i == 0 ? "" : ",", kStatRows[i].name,
          static_cast<unsigned long long>(figures.stats[i]));
  print("}}}\n");
}

}  // namespace

extern "C" LLAMALLOC_EXPORT void malloc_stats_print(Write* write, void* data, const char* options) {
  const Printer print{write == nullptr ? write_to_stderr : write, data};
  const Asked asked = asked_by(options);
  const Figures figures = current_figures();
  if (asked.json)
    print_json(print, figures, asked.general);
  else
    print_text(print, figures, asked.general);
}
