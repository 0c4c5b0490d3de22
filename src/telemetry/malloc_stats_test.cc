// SPDX-License-Identifier: Apache-2.0
// What is written for tools that know glibc or jemalloc.
#include <gtest/gtest.h>

#include <string>

#include "telemetry/glibc_text.h"
#include "telemetry/jemalloc_stats.h"

namespace llamalloc {
namespace {

TextWriter into(std::string* text) {
  return {[](void* data, const char* piece) { *static_cast<std::string*>(data) += piece; }, text};
}

Figures some_figures() {
  Figures figures;
  figures.stats[static_cast<int>(Stat::allocated)] = 1234;
  figures.pages_backed = 4096;
  figures.allocated = 1000;
  figures.direct_bytes = 50;
  return figures;
}

std::string jemalloc_stats(const char* letters) {
  std::string text;
  write_jemalloc_stats(some_figures(), "1.2.3", letters, into(&text));
  return text;
}

TEST(MallocStats, JemallocsLettersChooseFormAndParts) {
  EXPECT_NE(jemalloc_stats(nullptr).find("Version: \"llamalloc 1.2.3\"\n"), std::string::npos);
  EXPECT_NE(jemalloc_stats("").find("\nAllocated: 1234, active: "), std::string::npos);
  EXPECT_EQ(jemalloc_stats("g").find("Version"), std::string::npos);
  EXPECT_EQ(jemalloc_stats("J").find("{\"jemalloc\":{\"version\":\"llamalloc 1.2.3\""), 0u);
  EXPECT_EQ(jemalloc_stats("gJ").find("{\"jemalloc\":{\"stats\":{\"allocated\":1234,"), 0u);
}

TEST(MallocStats, GlibcsLinesCountMappingsInTheTotal) {
  std::string text;
  write_glibc_text(some_figures(), into(&text));
  EXPECT_EQ(text,
            "Arena 0:\nsystem bytes     =       4096\nin use bytes     =       1000\n"
            "Total (incl. mmap):\nsystem bytes     =       4146\nin use bytes     =       1050\n");
}

}  // namespace
}  // namespace llamalloc
