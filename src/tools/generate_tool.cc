// SPDX-License-Identifier: Apache-2.0
// llamalloc-generate: writes a trace that no program was recorded for. Exit code 0, 1 (the work
// failed) or 2 (wrong use).
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "generator/generated_load.h"
#include "trace_file/trace_writer.h"

using namespace llamalloc;
using generator::WaveShape;

namespace {

constexpr char kHelp[] =
    R"(usage: llamalloc-generate SIZES.csv -o OUT.trace [OPTIONS]

Makes a trace from measured sizes and rates (workloads/fleetbench/TCMALLOC_1.csv). The calling
contexts and their lifetimes are invented. The load rises and falls. The same options and seed
give the same trace.

  amount
    --events N        number of events to write (10000000)
    --live MIB        mean live heap in MiB; the rates scale with it (default: as measured)
    --largest BYTES   leave out larger sizes (16777216)
    --smallest BYTES  leave out smaller sizes (1): fewer events an hour for the same heap
    --cold            start with an empty heap (default: with the average number of objects)
  load over time
    --wave SHAPE      none, sine, steps, bursts or days (sine); the allocation rates follow it
    --period SECONDS  length of a wave (8); with days, of a day
    --slow FACTOR     everything takes so many times as long, from rates to lifetimes (1)
    --depth D         0: no wave; 1: from nothing to twice the mean (0.9)
  calling contexts
    --contexts N      about this many; a frequent size gets up to 12 (400)
    --heavy SHARE     share of contexts in which 1 object in 1,000 lives 300 times as long (0.1)
    --sessions SHARE  share of contexts whose objects live to the end of the wave (0.1)
    --batches SHARE   share of contexts that allocate about 40 objects that die together (0.2)
    --resizing SHARE  share of contexts whose objects double 1 to 3 times by realloc (0.05)
    The lifetimes in the other contexts are exponential or log-normal, about half each.
  threads
    --threads N       number of threads (16)
    --remote SHARE    share of objects that another, random thread frees (0.2)
  --seed N            seed of the random numbers (1)
  --level N           compression level; 0: none (1)
  --dry               write nothing; measures how fast events are made

Examples:
  cd workloads/fleetbench
  llamalloc-generate TCMALLOC_1.csv -o waves.trace
  llamalloc-generate TCMALLOC_3.csv --live 512 --wave steps --period 4 -o s.trace
  llamalloc-generate TCMALLOC_1.csv --events 100000 --live 4 --seed 7 -o x.trace
)";

struct Arguments {
  std::string sizes, output;
  double live_mib = 0;
  double slow = 1;
  uint64_t largest = 16 << 20;
  uint64_t smallest = 1;
  int level = 1;
  bool dry = false;
  generator::MixOptions mix;
  generator::LoadOptions load;
};

[[noreturn]] void misuse(const std::string& what) {
  fprintf(stderr, "llamalloc-generate: %s; see llamalloc-generate --help\n", what.c_str());
  exit(2);
}

[[noreturn]] void fail(const std::string& what) {
  fprintf(stderr, "llamalloc-generate: %s\n", what.c_str());
  exit(1);
}

// The value of an option, between two bounds.
double number_of(const std::string& option, const char* text, double least, double most) {
  char* end = nullptr;
  const double value = text ? strtod(text, &end) : 0;
  if (!text || end == text || *end || !(value >= least) || !(value <= most)) {
    char bounds[64];
    snprintf(bounds, sizeof bounds, " needs a number from %g to %g", least, most);
    misuse(option + bounds);
  }
  return value;
}

WaveShape shape_of(const char* text) {
  const char* const names[] = {"none", "sine", "steps", "bursts", "days"};
  for (int i = 0; i < 5; ++i) {
    if (text && !strcmp(text, names[i])) return static_cast<WaveShape>(i);
  }
  misuse("--wave needs none, sine, steps, bursts or days");
}

// What an option with a number sets, and the bounds of it.
struct Setting {
  const char* option;
  double least, most;
  void (*set)(Arguments&, double);
};

constexpr Setting kSettings[] = {
    {"--events", 1, 1e12, [](Arguments& a, double x) { a.load.events = static_cast<uint64_t>(x); }},
    {"--live", 0.01, 1e6, [](Arguments& a, double x) { a.live_mib = x; }},
    {"--smallest", 1, 1e12, [](Arguments& a, double x) { a.smallest = static_cast<uint64_t>(x); }},
    {"--slow", 1, 1e9, [](Arguments& a, double x) { a.slow = x; }},
    {"--largest", 16, 1e12, [](Arguments& a, double x) { a.largest = static_cast<uint64_t>(x); }},
    {"--period", 0.001, 1e6, [](Arguments& a, double x) { a.load.wave.period = x; }},
    {"--depth", 0, 1, [](Arguments& a, double x) { a.load.wave.depth = x; }},
    {"--contexts", 1, 1e5,
     [](Arguments& a, double x) { a.mix.contexts = static_cast<uint32_t>(x); }},
    {"--heavy", 0, 1, [](Arguments& a, double x) { a.mix.heavy = x; }},
    {"--sessions", 0, 1, [](Arguments& a, double x) { a.mix.sessions = x; }},
    {"--batches", 0, 1, [](Arguments& a, double x) { a.mix.batches = x; }},
    {"--resizing", 0, 1, [](Arguments& a, double x) { a.mix.resizing = x; }},
    {"--threads", 1, 30'000,
     [](Arguments& a, double x) { a.load.threads = static_cast<uint32_t>(x); }},
    {"--remote", 0, 1, [](Arguments& a, double x) { a.load.remote_frees = x; }},
    {"--seed", 0, 1e15,
     [](Arguments& a, double x) { a.mix.seed = a.load.seed = static_cast<uint64_t>(x); }},
    {"--level", 0, 19, [](Arguments& a, double x) { a.level = static_cast<int>(x); }},
};

bool set_number(Arguments& arguments, const std::string& option, const char* text) {
  for (const Setting& setting : kSettings) {
    if (option != setting.option) continue;
    setting.set(arguments, number_of(option, text, setting.least, setting.most));
    return true;
  }
  return false;
}

Arguments parse(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const char* const next = i + 1 < count ? words[i + 1] : nullptr;
    if (word == "-h" || word == "--help") {
      fputs(kHelp, stdout);
      exit(0);
    }
    if (word == "--cold")
      arguments.load.warm_up = false;
    else if (word == "--dry")
      arguments.dry = true;
    else if (word == "--wave")
      arguments.load.wave.shape = shape_of(next), ++i;
    else if (word == "-o")
      arguments.output = next ? next : (misuse("-o needs a file"), ""), ++i;
    else if (set_number(arguments, word, next))
      ++i;
    else if (word[0] == '-')
      misuse(word + ": no such option");
    else if (arguments.sizes.empty())
      arguments.sizes = word;
    else
      misuse(word + ": give only one file of sizes");
  }
  if (arguments.sizes.empty())
    misuse("a file of sizes is missing, such as workloads/fleetbench/TCMALLOC_1.csv");
  if (arguments.output.empty() && !arguments.dry) misuse("-o OUT.trace is missing");
  if (arguments.mix.heavy + arguments.mix.sessions > 1) misuse("--heavy and --sessions exceed 1");
  return arguments;
}

std::vector<generator::SizeRate> scaled_rows(const Arguments& arguments) {
  std::string error;
  std::vector<generator::SizeRate> rows = generator::read_size_rates(arguments.sizes, &error);
  if (rows.empty()) fail(error);
  std::erase_if(rows, [&](const auto& row) {
    return row.size > arguments.largest || row.size < arguments.smallest;
  });
  const double live = live_bytes(rows);
  if (!(live > 0))
    fail(arguments.sizes + ": no size is left over; increase --largest, or decrease --smallest");
  const double factor = arguments.live_mib > 0 ? arguments.live_mib * (1 << 20) / live : 1;
  // Lifetimes are live / rate.
  for (auto& row : rows) row.rate *= factor / arguments.slow, row.live *= factor;
  return rows;
}

void write_stacks(const std::vector<generator::Context>& contexts, trace::TraceFileWriter& out) {
  std::unordered_map<std::string, uint32_t> known;
  std::vector<uint32_t> stack;
  for (const generator::Context& context : contexts) {
    stack.clear();
    for (const std::string& name : context.frames) {
      const auto [at, is_new] = known.try_emplace(name, static_cast<uint32_t>(known.size()));
      // Addresses that no module holds; one a name.
      if (is_new)
        out.add_frame({0x400000 + 64 * uint64_t{at->second}, trace::Frame::kNoModule, name});
      stack.push_back(at->second);
    }
    out.add_stack(stack);
  }
}

std::string joined(int count, char** words) {
  std::string text = "llamalloc-generate";
  for (int i = 1; i < count; ++i) text += std::string(" ") + words[i];
  return text;
}

// Says how far it is, once a second, where somebody looks on.
class Progress {
 public:
  explicit Progress(uint64_t whole) : whole_(whole), shown_(isatty(STDERR_FILENO)) {}
  void at(uint64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now < due_) return;
    fprintf(stderr, "\r%3.0f %%", 100.0 * static_cast<double>(done) / static_cast<double>(whole_));
    due_ = now + std::chrono::seconds(1);
  }
  ~Progress() {
    if (shown_) fputs("\r     \r", stderr);
  }

 private:
  uint64_t whole_;
  bool shown_;
  std::chrono::steady_clock::time_point due_ = std::chrono::steady_clock::now();
};

uint64_t write_events(generator::GeneratedLoad& load, uint64_t whole, trace::EventSink* out) {
  std::vector<trace::Event> events(4096);
  Progress progress(whole);
  uint64_t done = 0, end = 0;
  while (const size_t n = load.read(events)) {
    if (out) out->write({events.data(), n});
    end = events[n - 1].time;
    progress.at(done += n);
  }
  return end;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  generator::GeneratedLoad load(make_contexts(scaled_rows(arguments), arguments.mix),
                                arguments.load);
  std::unique_ptr<trace::TraceFileWriter> out;
  std::string error;
  if (!arguments.dry) {
    trace::TraceFileOptions options;
    options.command = joined(argc, argv);
    options.level = arguments.level;
    out = trace::TraceFileWriter::create(arguments.output, options, &error);
    if (!out) fail(error);
    write_stacks(load.contexts(), *out);
  }
  const clock_t start = clock();
  const uint64_t end = write_events(load, arguments.load.events, out.get());
  if (out && !out->close(&error)) fail(error);
  const double used = static_cast<double>(clock() - start) / CLOCKS_PER_SEC;
  printf(
      "%llu events of %zu contexts over %.1f s, %llu objects, peak live %.1f MiB; %.1f M "
      "events/s\n",
      static_cast<unsigned long long>(arguments.load.events), load.contexts().size(),
      static_cast<double>(end) * 1e-9, static_cast<unsigned long long>(load.objects()),
      static_cast<double>(load.peak_live_bytes()) / (1 << 20),
      static_cast<double>(arguments.load.events) / used * 1e-6);
}
