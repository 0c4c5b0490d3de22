// SPDX-License-Identifier: Apache-2.0
// libFuzzer over Options::parse and parse_file: whatever the text, every option stays within its
// bounds, what is printed reads back as the same, and with raised privileges no path is taken.
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/options.h"

namespace llamalloc {
namespace {

void expect(bool good) {
  if (!good) abort();
}

void expect_in_bounds(uint64_t value, uint64_t low, uint64_t high) {
  expect(value >= low && value <= high);
}
void expect_in_bounds(bool, uint64_t, uint64_t) {}
template <typename E>
void expect_in_bounds(Options::Choice<E> option, uint64_t low, uint64_t high) {
  expect_in_bounds(static_cast<uint64_t>(option.value), low, high);
}
void expect_in_bounds(const OptionText& value, uint64_t, uint64_t) {
  expect(memchr(value.text, 0, sizeof(value.text)) != nullptr);
}

bool is_default(const OptionText& value) {
  return value.text[0] == 0;
}
template <typename T>
bool is_default(const T&) {
  return true;
}

size_t warnings;
void count_warning(const char* message) {
  expect(strlen(message) < Options::kLongestWarning);
  ++warnings;
}

void expect_bounds(const Options& options, bool secure) {
#define OPTION(kind, name, default_value, minimum, maximum, is_path, help) \
  expect_in_bounds(options.name, minimum, maximum);                        \
  if (is_path && secure) expect(is_default(options.name));
#include "contracts/options.def"
}

// A bare number of a time is seconds and what is printed is nanoseconds: they say so here.
std::string* printed;
void append(const char* name, const char* value) {
#define OPTION(kind, option, default_value, minimum, maximum, is_path, help) \
  if (strcmp(name, #option) == 0)                                            \
    *printed += std::string(name) + ":" + value + (#kind[0] == 'n' ? "ns," : ",");
#include "contracts/options.def"
}

std::string text_of(const Options& options) {
  std::string text;
  printed = &text;
  options.print(append);
  return text;
}

void run(const char* text, bool secure) {
  Options options;
  warnings = 0;
  options.parse(text, secure, count_warning);
  expect_bounds(options, secure);
  Options from_file;
  from_file.parse_file(text, strlen(text), "file", secure, count_warning);
  expect_bounds(from_file, secure);
  if (secure) return;
  Options again;
  const std::string before = text_of(options);
  warnings = 0;
  again.parse(before.c_str(), false, count_warning);
  expect(warnings == 0 && text_of(again) == before);
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  llamalloc::run(text.c_str(), false);
  llamalloc::run(text.c_str(), true);
  return 0;
}
