// SPDX-License-Identifier: Apache-2.0
// The commands of contracts/commands.def, the values that have a name there, and which options may
// change at run time.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/options.h"

namespace llamalloc {

enum class Command : uint8_t {
#define COMMAND(name, argument, act, reply, help) name,
#include "contracts/commands.def"
};

struct CommandRow {
  Command id;
  const char* name;
  const char* argument;  // on the socket; "" for nothing
  const char* act;       // of llamalloc_act; "" for a null pointer, "-" if it is no act

  bool takes_argument() const { return argument[0] != 0; }
  bool is_act() const { return strcmp(act, "-") != 0; }
  bool act_takes_argument() const { return is_act() && act[0] != 0; }
};
inline constexpr CommandRow kCommandRows[] = {
#define COMMAND(name, argument, act, reply, help) {Command::name, #name, argument, act},
#include "contracts/commands.def"
};
// Each with a space before it, for messages.
inline constexpr char kCommandNames[] =
#define COMMAND(name, argument, act, reply, help) " " #name
#include "contracts/commands.def"
    ;

// Null: no such command.
inline const CommandRow* find_command(const char* name, size_t length) {
  for (const CommandRow& row : kCommandRows)
    if (strlen(row.name) == length && memcmp(row.name, name, length) == 0) return &row;
  return nullptr;
}

enum class NamedValue : uint8_t {
#define NAMED_VALUE(name, help) name,
#include "contracts/commands.def"
};
inline constexpr const char* kNamedValues[] = {
#define NAMED_VALUE(name, help) #name,
#include "contracts/commands.def"
};

// False: no such value.
inline bool find_named_value(const char* name, NamedValue* out) {
  uint8_t at = 0;
  for (const char* known : kNamedValues) {
    *out = static_cast<NamedValue>(at++);
    if (strcmp(name, known) == 0) return true;
  }
  return false;
}

inline constexpr const char* kLiveOptions[] = {
#define LIVE_OPTION(name) #name,
#include "contracts/commands.def"
};
inline constexpr char kLiveOptionNames[] =
#define LIVE_OPTION(name) " " #name
#include "contracts/commands.def"
    ;
#define LIVE_OPTION(name) static_assert(sizeof(Options::name) > 0);
#include "contracts/commands.def"

inline bool may_change(const char* option) {
  for (const char* name : kLiveOptions)
    if (strcmp(name, option) == 0) return true;
  return false;
}

}  // namespace llamalloc
