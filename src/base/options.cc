// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/path_pattern.h"

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
constexpr Unit kOne[] = {{"", 1}};

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

constexpr const char* kReactions[] = {"abort", "report"};
constexpr const char* kSegregations[] = {"auto", "always", "never"};
constexpr const char* kForecasts[] = {"auto", "peak", "trend", "none"};
constexpr const char* kNoPath =
    "expected a path; ./NAME is a file of that name, an empty value means none";

// What a number may be, and what to say of another one.
class Range {
 public:
  consteval Range(std::string_view kind, uint64_t low, uint64_t high) : low_(low), high_(high) {
    add("out of range; from ");
    add(kind, low);
    add(" to ");
    add(kind, high);
  }
  bool has(uint64_t value) const { return value >= low_ && value <= high_; }
  const char* refusal() const { return refusal_; }

 private:
  constexpr void add(std::string_view text) {
    for (const char c : text) refusal_[length_++] = c;
  }
  // In the largest unit that has it whole.
  constexpr void add(std::string_view kind, uint64_t value) {
    const Unit* best = &kOne[0];
    const auto look_at = [&](const Unit& unit) {
      if (value % unit.factor == 0 && unit.factor >= best->factor) best = &unit;
    };
    if (kind == "bytes")
      for (const Unit& unit : kByteUnits) look_at(unit);
    if (kind == "nanos")
      for (const Unit& unit : kTimeUnits) look_at(unit);
    if (value == 0) best = &kOne[0];
    add_digits(value / best->factor);
    add(best->name);
  }
  constexpr void add_digits(uint64_t value) {
    if (value >= 10) add_digits(value / 10);
    refusal_[length_++] = static_cast<char>('0' + value % 10);
  }

  uint64_t low_, high_;
  char refusal_[64] = {};
  size_t length_ = 0;
};

template <size_t N>
bool set_number(Text text, const Unit (&units)[N], const Range& range, uint64_t* out,
                const char** error) {
  uint64_t value = 0;
  if (!parse_number(text, units, &value)) return false;
  *error = range.refusal();
  if (!range.has(value)) return false;
  Options::change(out, value);
  return true;
}

bool set_bytes(Text text, const Range& range, uint64_t* out, const char** error) {
  *error = "not a size; write it like 64MiB";
  return set_number(text, kByteUnits, range, out, error);
}
bool set_nanos(Text text, const Range& range, uint64_t* out, const char** error) {
  *error = "not a time; write it like 250ms or 10s";
  return set_number(text, kTimeUnits, range, out, error);
}
bool set_count(Text text, const Range& range, uint64_t* out, const char** error) {
  *error = "not a number";
  return set_number(text, kOne, range, out, error);
}
bool set_flag(Text text, const Range&, bool* out, const char** error) {
  const bool on = text.is("on") || text.is("true") || text.is("yes") || text.is("1");
  const bool off = text.is("off") || text.is("false") || text.is("no") || text.is("0");
  *error = "expected on or off";
  if (on || off) *out = on;
  return on || off;
}
template <typename E, size_t N>
bool set_choice(Text text, const char* const (&words)[N], E* out) {
  for (size_t i = 0; i < N; ++i)
    if (text.is(words[i])) return Options::change(out, static_cast<E>(i)), true;
  return false;
}
constexpr Range kAny("", 0, 0);
bool set_reaction(Text text, const Range&, Options::reaction* out, const char** error) {
  *error = "expected abort or report";
  return set_choice(text, kReactions, &out->value);
}
bool set_segregation(Text text, const Range&, Options::segregation* out, const char** error) {
  *error = "expected auto, always or never";
  return set_choice(text, kSegregations, &out->value);
}
bool set_forecast(Text text, const Range&, Options::forecast* out, const char** error) {
  *error = "expected auto, peak, trend or none";
  return set_choice(text, kForecasts, &out->value);
}
bool set_text(Text text, const Range&, OptionText* out, const char** error) {
  *error = "too long";
  if (text.length >= kOptionText) return false;
  memcpy(out->text, text.data, text.length);
  out->text[text.length] = 0;
  return true;
}

// Who writes `control:on` means no file of that name.
bool set_pathname(Text text, const Range&, OptionText* out, const char** error) {
  bool on = false;
  if (set_flag(text, kAny, &on, error) || text.is("auto") || text.is("none"))
    return *error = kNoPath, false;
  return set_text(text, kAny, out, error);
}
bool set_path_or_flag(Text text, const Range&, OptionText* out, const char** error) {
  bool on = false;
  if (!set_flag(text, kAny, &on, error)) return set_pathname(text, kAny, out, error);
  strcpy(out->text, on ? "on" : "off");
  return true;
}

bool is_allowed(Text path, bool secure, const char** error) {
  *error = secure ? "not allowed in a process with raised privileges" : kPathWords;
  return !secure && is_path_pattern(path.data, path.length);
}

const char* name_of(const Options::reaction& choice) {
  return kReactions[static_cast<int>(Options::current(choice.value))];
}
const char* name_of(const Options::segregation& choice) {
  return kSegregations[static_cast<int>(Options::current(choice.value))];
}

const char* name_of(const Options::forecast& choice) {
  return kForecasts[static_cast<int>(Options::current(choice.value))];
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
template <typename E>
void format(char* out, size_t room, const Options::Choice<E>& value) {
  snprintf(out, room, "%s", name_of(value));
}

template <typename T>
Options::Value value_of(const T& number) {
  return {Options::current(number), nullptr};
}
Options::Value value_of(const OptionText& text) {
  return {0, text.text};
}
template <typename E>
Options::Value value_of(const Options::Choice<E>& value) {
  return {0, name_of(value)};
}

Text until(const char* p, const char* end, char stop) {
  const void* found = memchr(p, stop, static_cast<size_t>(end - p));
  return {p, static_cast<size_t>((found ? static_cast<const char*>(found) : end) - p)};
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

Text trim(Text text) {
  for (; text.length > 0 && is_blank(text.data[0]); --text.length) ++text.data;
  while (text.length > 0 && is_blank(text.data[text.length - 1])) --text.length;
  return text;
}

// key:value as two texts without blanks around them; false: no colon.
bool split(Text part, Text* key, Text* value) {
  const Text name = until(part.data, part.data + part.length, ':');
  if (name.length == part.length) return false;
  *key = trim(name);
  *value = trim({name.data + name.length + 1, part.length - name.length - 1});
  return true;
}

bool apply(Options& options, Text part, bool secure, const char** error) {
  Text key, value;
  *error = "expected key:value";
  return split(part, &key, &value) &&
         options.set(key.data, key.length, value.data, value.length, secure, error);
}

bool apply_line(Options& options, Text line, bool secure, const char** error) {
  Text key, value;
  *error = "the line contains a zero byte";
  if (memchr(line.data, 0, line.length) != nullptr) return false;
  *error = "expected key:value";
  if (!split(line, &key, &value)) return false;
  *error = "a file of options cannot name another one";
  if (key.is("conf_file")) return false;
  return options.set(key.data, key.length, value.data, value.length, secure, error);
}

// The faults of one text, as far as anyone wants to read them.
class Faults {
 public:
  Faults(const char* source, Options::Warn warn) : source_(source), warn_(warn) {}

  // line: 0 for a text without lines.
  void add(unsigned line, Text part, const char* error) {
    if (++count_ > Options::kMostFaults + 1) return;
    char place[16] = "";
    if (line != 0) snprintf(place, sizeof(place), ":%u", line);
    char message[Options::kLongestWarning];
    if (count_ > Options::kMostFaults)
      snprintf(message, sizeof(message), "%.300s%s: more errors follow", source_, place);
    else
      snprintf(message, sizeof(message), "%.300s%s: \"%.*s\": %s; ignored", source_, place,
               static_cast<int>(part.length < kShown ? part.length : kShown), part.data, error);
    for (char* c = message; *c != 0; ++c)
      if (*c < ' ' || *c > '~') *c = '?';  // nothing that a terminal would act upon
    warn_(message);
  }

 private:
  static constexpr size_t kShown = 80;
  const char* source_;
  Options::Warn warn_;
  int count_ = 0;
};

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
    static constexpr Range kRange(#kind, minimum, maximum);                \
    if (is_path && !is_allowed(value, secure, error)) return false;        \
    return set_##kind(value, kRange, &name, error);                        \
  }
#include "contracts/options.def"
  *error = "no such option (docs/options.md)";
  return false;
}

void Options::parse(const char* configuration, bool secure, Warn warn, const char* source) {
  Faults faults(source, warn);
  const char* end = configuration + strnlen(configuration, kLongestText);
  for (const char* p = configuration; p < end;) {
    const Text whole = until(p, end, ',');
    const Text part = trim(whole);
    const char* error = nullptr;
    if (part.length > 0 && !apply(*this, part, secure, &error)) faults.add(0, part, error);
    p += whole.length + 1;
  }
}

void Options::parse_file(const char* content, size_t length, const char* path, bool secure,
                         Warn warn) {
  Faults faults(path, warn);
  const char* end = content + (length < kLongestText ? length : kLongestText);
  unsigned number = 0;
  for (const char* p = content; p < end;) {
    const Text whole = until(p, end, '\n');
    const Text line = trim(whole);
    const char* error = nullptr;
    ++number;
    if (line.length > 0 && line.data[0] != '#' && !apply_line(*this, line, secure, &error))
      faults.add(number, line, error);
    p += whole.length + 1;
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
