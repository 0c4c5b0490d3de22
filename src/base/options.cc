// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <cstdio>
#include <cstring>

namespace llamalloc {
namespace {

struct Text {
  const char* data;
  size_t length;
  bool is(const char* word) const {
    return strlen(word) == length && strncasecmp(data, word, length) == 0;
  }
};

struct Unit {
  const char* name;
  uint64_t factor;
};
constexpr Unit kByteUnits[] = {{"", 1},         {"B", 1},         {"K", 1 << 10},
                               {"KB", 1 << 10}, {"KiB", 1 << 10}, {"M", 1 << 20},
                               {"MB", 1 << 20}, {"MiB", 1 << 20}, {"G", 1 << 30},
                               {"GB", 1 << 30}, {"GiB", 1 << 30}, {"TiB", 1ull << 40}};
constexpr Unit kTimeUnits[] = {{"", 1000000000},     {"s", 1000000000},   {"ms", 1000000},
                               {"us", 1000},         {"ns", 1},           {"m", 60000000000},
                               {"min", 60000000000}, {"h", 3600000000000}};

template <size_t N>
bool parse_number(Text text, const Unit (&units)[N], uint64_t* out) {
  uint64_t whole = 0;
  size_t i = 0;
  while (i < text.length && text.data[i] >= '0' && text.data[i] <= '9') {
    if (__builtin_mul_overflow(whole, 10, &whole) ||
        __builtin_add_overflow(whole, static_cast<uint64_t>(text.data[i] - '0'), &whole))
      return false;
    ++i;
  }
  if (i == 0) return false;
  const Text rest{text.data + i, text.length - i};
  for (const Unit& unit : units)
    if (rest.is(unit.name)) return !__builtin_mul_overflow(whole, unit.factor, out);
  return false;
}

constexpr const char* kBadNumber = "not a number with a unit that is known";
constexpr const char* kOutOfRange = "out of range";

bool in_range(uint64_t value, uint64_t minimum, uint64_t maximum, const char** error) {
  if (value >= minimum && value <= maximum) return true;
  *error = kOutOfRange;
  return false;
}

template <size_t N>
bool set_number(Text text, const Unit (&units)[N], uint64_t minimum, uint64_t maximum,
                uint64_t* out, const char** error) {
  uint64_t value = 0;
  *error = kBadNumber;
  if (!parse_number(text, units, &value) || !in_range(value, minimum, maximum, error)) return false;
  *out = value;
  return true;
}

bool set_bytes(Text text, uint64_t low, uint64_t high, uint64_t* out, const char** error) {
  return set_number(text, kByteUnits, low, high, out, error);
}
bool set_nanos(Text text, uint64_t low, uint64_t high, uint64_t* out, const char** error) {
  return set_number(text, kTimeUnits, low, high, out, error);
}
bool set_count(Text text, uint64_t low, uint64_t high, uint64_t* out, const char** error) {
  constexpr Unit kOne[] = {{"", 1}};
  return set_number(text, kOne, low, high, out, error);
}
bool set_flag(Text text, uint64_t, uint64_t, bool* out, const char** error) {
  const bool on = text.is("on") || text.is("true") || text.is("yes") || text.is("1");
  const bool off = text.is("off") || text.is("false") || text.is("no") || text.is("0");
  *error = "neither on nor off";
  if (on || off) *out = on;
  return on || off;
}
bool set_reaction(Text text, uint64_t, uint64_t, Options::reaction* out, const char** error) {
  *error = "neither abort nor report";
  if (text.is("abort")) return out->value = OnMisuse::abort, true;
  if (text.is("report")) return out->value = OnMisuse::report, true;
  return false;
}
bool set_text(Text text, uint64_t, uint64_t, OptionText* out, const char** error) {
  *error = "too long";
  if (text.length >= kOptionText) return false;
  memcpy(out->text, text.data, text.length);
  out->text[text.length] = 0;
  return true;
}

const char* reaction_name(Options::reaction value) {
  return value == OnMisuse::abort ? "abort" : "report";
}

void format(char* out, size_t room, uint64_t value) {
  snprintf(out, room, "%llu", static_cast<unsigned long long>(value));
}
void format(char* out, size_t room, bool value) {
  snprintf(out, room, "%s", value ? "on" : "off");
}
void format(char* out, size_t room, const OptionText& value) {
  snprintf(out, room, "%s", value.text);
}
void format(char* out, size_t room, Options::reaction value) {
  snprintf(out, room, "%s", reaction_name(value));
}

Options::Value value_of(uint64_t number) {
  return {number, nullptr};
}
Options::Value value_of(const OptionText& text) {
  return {0, text.text};
}
Options::Value value_of(Options::reaction value) {
  return {0, reaction_name(value)};
}

}  // namespace

bool Options::get(const char* name_text, Value* out) const {
#define OPTION(kind, name, default_value, minimum, maximum, is_path, help) \
  if (strcmp(name_text, #name) == 0) return *out = value_of(name), true;
#include "contracts/options.def"
  return false;
}

bool Options::set(const char* name_data, size_t name_length, const char* value_data,
                  size_t value_length, bool secure, const char** error) {
  const Text key{name_data, name_length};
  const Text value{value_data, value_length};
#define OPTION(kind, name, default_value, minimum, maximum, is_path, help) \
  if (key.is(#name)) {                                                     \
    *error = "ignored because the process has raised privileges";          \
    if (is_path && secure) return false;                                   \
    return set_##kind(value, minimum, maximum, &name, error);              \
  }
#include "contracts/options.def"
  *error = "no such option";
  return false;
}

void Options::parse(const char* configuration, bool secure, Warn warn) {
  constexpr size_t kLongest = 64 * 1024;
  const char* end = configuration + strnlen(configuration, kLongest);
  for (const char* p = configuration; p < end;) {
    const char* comma = static_cast<const char*>(memchr(p, ',', static_cast<size_t>(end - p)));
    if (comma == nullptr) comma = end;
    const char* colon = static_cast<const char*>(memchr(p, ':', static_cast<size_t>(comma - p)));
    const char* error = "expected key:value";
    if (comma > p &&
        (colon == nullptr || !set(p, static_cast<size_t>(colon - p), colon + 1,
                                  static_cast<size_t>(comma - colon - 1), secure, &error))) {
      char message[256];
      snprintf(message, sizeof(message), "LLAMALLOC_CONF: \"%.*s\": %s; option left as it was",
               static_cast<int>(comma - p < 120 ? comma - p : 120), p, error);
      warn(message);
    }
    p = comma + 1;
  }
}

void Options::print(void (*f)(const char* name, const char* value)) const {
  char value_text[kOptionText];
#define OPTION(kind, name, default_value, minimum, maximum, is_path, help) \
  format(value_text, sizeof(value_text), name);                            \
  f(#name, value_text);
#include "contracts/options.def"
}

}  // namespace llamalloc
