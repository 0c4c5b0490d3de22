// SPDX-License-Identifier: Apache-2.0
// llamalloc-trace: what `llamalloc trace` leaves to C++. One verb a run; exit code 0, 1 (the work
// failed) or 2 (wrong use).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tools/standard_output.h"
#include "trace_file/trace_cut.h"
#include "trace_file/trace_reader.h"
#include "trace_file/trace_summary.h"

using namespace llamalloc::trace;

namespace {

constexpr char kHelp[] =
    R"(usage: llamalloc-trace COMMAND TRACE [OPTIONS]

  info T [--top N]            describe the trace as JSON; N: number of stacks to list (10)
  pack T -o OUT [--level N]   write the same events to a smaller file that reads faster
  cut T -o OUT [--events N] [--from SECONDS] [--to SECONDS] [--level N]
                              write a part; objects alive at its start are allocated there
  dump T                      write events as 40-byte records to stdout (contracts/trace_format.md)
  tables T                    print each stack on a line: STACK<tab>NAME;NAME;...
  count T                     read all events and print their number; measures the speed of reading

Record a trace with: llamalloc trace -o t.trace -- ./server
)";

struct Arguments {
  std::string verb, trace, output;
  Window window;
  size_t top = 10;
  int level = 6;
};

[[noreturn]] void misuse(const std::string& what) {
  fprintf(stderr, "llamalloc-trace: %s; see llamalloc-trace --help\n", what.c_str());
  exit(2);
}

double number_of(const char* option, const char* text) {
  char* end = nullptr;
  const double value = text ? strtod(text, &end) : 0;
  if (text == nullptr || end == text || *end != 0 || !(value >= 0) || value > 1e15)
    misuse(std::string(option) + " needs a number of at least 0");
  return value;
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const char* next = i + 1 < count ? words[i + 1] : nullptr;
    const auto number = [&] { return ++i, number_of(word.c_str(), next); };
    if (word == "-h" || word == "--help") {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (word == "--top")
      arguments.top = static_cast<size_t>(number());
    else if (word == "--level")
      arguments.level = static_cast<int>(number());
    else if (word == "--events")
      arguments.window.max_events = static_cast<uint64_t>(number());
    else if (word == "--from")
      arguments.window.from = static_cast<uint64_t>(number() * 1e9);
    else if (word == "--to")
      arguments.window.to = static_cast<uint64_t>(number() * 1e9);
    else if (word == "-o")
      arguments.output = next ? (++i, next) : (misuse("-o needs a file"), "");
    else if (word.size() > 1 && word[0] == '-')
      misuse(word + ": no such option");
    else if (arguments.verb.empty())
      arguments.verb = word;
    else if (arguments.trace.empty())
      arguments.trace = word;
    else
      misuse(word + ": give only one trace");
  }
  if (arguments.verb.empty() || arguments.trace.empty()) misuse("give a command and a trace");
  return arguments;
}

int complain(const std::string& error) {
  fprintf(stderr, "llamalloc-trace: %s\n", error.c_str());
  return 1;
}

int print_info(TraceReader& reader, const Arguments& arguments) {
  TraceSummary summary(reader.tables().stacks.size());
  std::vector<Event> events(4096);
  while (const size_t count = reader.read(events))
    for (size_t i = 0; i < count; ++i) summary.add(events[i]);
  if (!reader.error().empty()) return complain(reader.error());
  fputs(to_json(summary, reader, arguments.top).c_str(), stdout);
  return 0;
}

int count_events(TraceReader& reader) {
  uint64_t total = 0;
  std::vector<Event> events(4096);
  while (const size_t count = reader.read(events)) total += count;
  if (!reader.error().empty()) return complain(reader.error());
  printf("%llu\n", static_cast<unsigned long long>(total));
  return 0;
}

int dump_events(TraceReader& reader) {
  static_assert(sizeof(Event) == 40);
  std::vector<Event> events(4096);
  std::vector<char> bytes(events.size() * sizeof(Event));
  while (const size_t count = reader.read(events)) {
    memset(bytes.data(), 0, bytes.size());
    for (size_t i = 0; i < count; ++i)
      memcpy(&bytes[i * sizeof(Event)], &events[i], offsetof(Event, alignment_log2) + 1);
    if (fwrite(bytes.data(), sizeof(Event), count, stdout) != count) return 0;  // main tells
  }
  return reader.error().empty() ? 0 : complain(reader.error());
}

int print_tables(const TraceReader& reader) {
  const Tables& tables = reader.tables();
  for (uint32_t i = 0; i < tables.stacks.size(); ++i) {
    printf("%u\t", i);
    const char* between = "";
    for (const uint32_t frame : tables.stacks[i]) {
      printf("%s%s", between, tables.frames[frame].name.c_str());
      between = ";";
    }
    printf("\n");
  }
  return 0;
}

int run(const Arguments& arguments) {
  std::string error;
  const bool writes = arguments.verb == "pack" || arguments.verb == "cut";
  if (writes && arguments.output.empty()) misuse(arguments.verb + " needs -o FILE");
  auto reader = TraceReader::open(arguments.trace, &error);
  if (reader == nullptr) return complain(error);
  if (arguments.verb == "info") return print_info(*reader, arguments);
  if (arguments.verb == "count") return count_events(*reader);
  if (arguments.verb == "dump") return dump_events(*reader);
  if (arguments.verb == "tables") return print_tables(*reader);
  if (!writes) misuse(arguments.verb + ": no such command");
  const Window window = arguments.verb == "cut" ? arguments.window : Window{};
  return cut(*reader, window, arguments.output, arguments.level, &error) ? 0 : complain(error);
}

}  // namespace

int main(int count, char** words) {
  const int code = run(parse(count, words));
  return code != 0 || llamalloc::standard_output_is_written()
             ? code
             : complain("standard output: cannot be written");
}
