// SPDX-License-Identifier: Apache-2.0
#include "telemetry/jemalloc_stats.h"

#include <cstring>

#include "heap/size_class.h"

namespace llamalloc {
namespace {

// version: null leaves out the general part.
unsigned long long number(const Figures& figures, Stat which) {
  return figures.stat(which);
}

void write_text(const TextWriter& print, const Figures& figures, const char* version) {
  print("___ Begin jemalloc statistics ___\n");
  if (version != nullptr) {
    print("Version: \"llamalloc %s\"\n", version);
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

void write_general_json(const TextWriter& print, const char* version) {
  print("\"version\":\"llamalloc %s\",\"config\":{},\"opt\":{},", version);
  print("\"arenas\":{\"narenas\":1,\"quantum\":16,\"page\":%zu,\"nbins\":%d,\"bin\":[", kSmallPage,
        kSizeClasses);
  for (int i = 0; i < kSizeClasses; ++i)
    print("%s{\"size\":%u}", i == 0 ? "" : ",", kSizeClassRows[i].size);
  print("]},");
}

void write_json(const TextWriter& print, const Figures& figures, const char* version) {
  print("{\"jemalloc\":{");
  if (version != nullptr) write_general_json(print, version);
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

bool has(const char* letters, char letter) {
  return letters != nullptr && strchr(letters, letter) != nullptr;
}

}  // namespace

void write_jemalloc_stats(const Figures& figures, const char* version, const char* letters,
                          const TextWriter& print) {
  const char* const shown = has(letters, 'g') ? nullptr : version;
  if (has(letters, 'J'))
    write_json(print, figures, shown);
  else
    write_text(print, figures, shown);
}

}  // namespace llamalloc
