// SPDX-License-Identifier: Apache-2.0
// The options of contracts/options.def and the parsers of `key:value,key:value` and of files.
//
// Values: bytes "64MiB", "512KiB", "1GiB", "4096" (K, M, G and KB, MB, GB mean the same powers of
// 1024); times "10s", "250ms", "5us", "3ns", "2m", "1h", a bare number is seconds; flags on/off,
// true/false, yes/no, 1/0, which are no paths. Spaces around key and value count for nothing. In a
// string a comma ends a value, so paths cannot hold one; in a file the line ends it, and `#` starts
// a line of comment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llamalloc {

inline constexpr size_t kOptionText = 1024;

struct OptionText {
  constexpr OptionText(const char (&)[1]) {}  // from "", the default of every text option
  char text[kOptionText] = {};
};

// In the order of their words in an OPTION row.
enum class OnMisuse : uint8_t { abort, report };
enum class Segregate : uint8_t { automatic, always, never };
enum class ReleaseForecast : uint8_t { automatic, peak, trend, none };

struct Options {
  // An option that may change at run time, while threads read it.
  template <typename T>
  static T current(const T& option) {
    T value;
    __atomic_load(&option, &value, __ATOMIC_RELAXED);
    return value;
  }
  template <typename T>
  static void change(T* option, T value) {
    __atomic_store(option, &value, __ATOMIC_RELAXED);
  }

  using bytes = uint64_t;
  using nanos = uint64_t;
  using count = uint64_t;
  using flag = bool;
  using text = OptionText;
  using pathname = OptionText;
  using path_or_flag = OptionText;
  template <typename E>
  struct Choice {
    E value;
    constexpr Choice(int number) : value(static_cast<E>(number)) {}  // of the table
    bool operator==(E other) const { return current(value) == other; }
  };
  using reaction = Choice<OnMisuse>;
  using segregation = Choice<Segregate>;
  using forecast = Choice<ReleaseForecast>;
#define OPTION(kind, name, default_value, minimum, maximum, is_path, help) kind name{default_value};
#include "contracts/options.def"

  // Bytes between samples; `usual`, where the option leaves it open.
  static constexpr uint64_t kSampleInterval = uint64_t{512} << 10;
  static constexpr uint64_t kObserveInterval = uint64_t{2} << 20;  // only for whoever looks
  uint64_t interval(uint64_t usual = kSampleInterval) const {
    const uint64_t asked = current(sample_interval);
    return asked == 0 ? usual : asked;
  }

  // What a parser does with a fault: a message without newline, of printable characters, below
  // kLongestWarning bytes. After kMostFaults of one text the rest is not named.
  using Warn = void (*)(const char* message);
  static constexpr size_t kLongestWarning = 480;
  static constexpr int kMostFaults = 10;
  static constexpr size_t kLongestText = 64 * 1024;  // of a configuration; what follows is ignored

  // Applies a configuration string that came from `source`; faulty parts warn and leave the option
  // as it was. secure: the process has raised privileges, path options are ignored (with a
  // warning).
  void parse(const char* configuration, bool secure, Warn warn,
             const char* source = "LLAMALLOC_CONF");
  // The same for the content of a file; warnings start with `path` and the line.
  void parse_file(const char* content, size_t length, const char* path, bool secure, Warn warn);
  // Sets one option; false, with `error` pointing to a constant text, if name or value is unknown.
  bool set(const char* name, size_t name_length, const char* value, size_t value_length,
           bool secure, const char** error);
  // Calls f("name", "value as text") for every option.
  void print(void (*f)(const char* name, const char* value)) const;
  // One of the two is set: a number (flags are 0 and 1), or else a text.
  struct Value {
    uint64_t number = 0;
    const char* text = nullptr;
  };
  // False: no such option.
  bool get(const char* name, Value* out) const;
};

}  // namespace llamalloc
