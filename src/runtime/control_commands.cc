// SPDX-License-Identifier: Apache-2.0
#include "runtime/control_commands.h"

#include <unistd.h>

#include <cstring>

#include "runtime/figures.h"
#include "runtime/release.h"
#include "runtime/values.h"

namespace llamalloc {
namespace {

void add_release(Text* out) {
  const Released released = release_memory(0);
  out->add("ok\n%zu\nempty_pages %zu\nmappings %zu\nbroken_pages %zu\n", released.total(),
           released.empty_pages, released.mappings, released.broken_pages);
}

void add_value(const char* name, Text* out) {
  Options::Value value;
  if (!read_value(name, &value))
    out->add("error: no such statistic or option, and no other value of that name\n");
  else if (value.text != nullptr)
    out->add("ok\n%s\n", value.text);
  else
    out->add("ok\n%llu\n", static_cast<unsigned long long>(value.number));
}

void add_change(char* name, Text* out) {
  char* value = strchr(name, ' ');
  if (value != nullptr) *value++ = 0;
  if (value != nullptr && change_option(name, value) == 0)
    out->add("ok\n");
  else
    out->add(
        "error: expected set NAME VALUE, with VALUE like 64MiB or 10s or report; NAME is one "
        "of:%s\n",
        kLiveOptionNames);
}

void add_act(const char* name, const char* argument, Text* out) {
  const char* why = "expected sampling on, or sampling off";
  const int error = act(name, argument, &why);
  if (error == 0)
    out->add("ok\n");
  else if (error == EIO)
    out->add("error: %.300s: %s\n", argument, why);
  else
    out->add("error: %s\n", why);
}

}  // namespace

bool ControlCommands::begin(int client, char* line, Text* out) {
  if (char* line_end = strpbrk(line, "\r\n")) *line_end = 0;
  char* argument = strchr(line, ' ');
  const size_t length = argument ? static_cast<size_t>(argument - line) : strlen(line);
  const CommandRow* row = find_command(line, length);
  if (argument != nullptr) ++argument;
  if (row == nullptr)
    out->add("error: unknown command; the commands are:%s\n", kCommandNames);
  else if (!row->takes_argument() && argument != nullptr)
    out->add("error: %s takes no argument\n", row->name);
  else if (row->takes_argument() && argument == nullptr)
    out->add("error: expected %s %s\n", row->name, row->argument);
  else
    return begin_command(*row, client, argument, out);
  return false;
}

bool ControlCommands::begin_command(const CommandRow& row, int client, char* argument, Text* out) {
  switch (row.id) {
    case Command::ping:
      out->add("ok\npid %d\n", getpid());
      break;
    case Command::stats:
      return begin_stats(client, out);
    case Command::get:
      add_value(argument, out);
      break;
    case Command::set:
      add_change(argument, out);
      break;
    case Command::sampling:
    case Command::profile:
    case Command::window:
    case Command::heap:
      add_act(row.name, argument, out);
      break;
    case Command::release:
      add_release(out);
      break;
  }
  return false;
}

bool ControlCommands::begin_stats(int client, Text* out) {
  ProcessSnapshot* snapshot = take_process_snapshot(read_system());
  if (snapshot == nullptr) return out->add("error: out of memory\n"), false;
  documents_[client] = {snapshot, StatsJson(*snapshot)};
  out->add("ok\n");
  return true;
}

bool ControlCommands::more(int client, Text* out) {
  return documents_[client].json.add_next(out);
}

void ControlCommands::end(int client) {
  if (documents_[client].snapshot != nullptr) telemetry.give(documents_[client].snapshot);
  documents_[client].snapshot = nullptr;
}

}  // namespace llamalloc
