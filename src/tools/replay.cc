// SPDX-License-Identifier: Apache-2.0
// llamalloc-replay: does what a trace says with the malloc that it runs on, in the trace's threads
// and at its pace, and prints what the process has resident. Preload the allocator to look at.
//
// What was resident before the first of the trace's calls is subtracted.
#include <getopt.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/system_facts.h"
#include "tools/replay_player.h"
#include "tools/standard_output.h"

namespace {

using namespace llamalloc;

constexpr char kHelp[] =
    R"(usage: llamalloc-replay TRACE [--samples N] [--speed X]

Repeats the allocations, resizes and frees of a trace at their original times and each in a thread
of its own, in the trace's order, with the malloc of this process. Prints live and resident bytes
over time as JSON. Writes to every page of each object.

  --samples N   number of evenly spaced samples (100)
  --speed X     multiple of the original speed (1); 0: as fast as possible, which is too fast
                for the background thread to keep up

The JSON's `clock` holds 4097 times in nanoseconds: when each 4096th of the trace really happened.
`ticks`: the period of the system's coarse clock, and when its first tick was.
`worker` holds a pair for each step of llamalloc's background thread: how many events were over, and
when. llamalloc-simulate --pace takes both, so that a busy machine disturbs no comparison.

example: LD_PRELOAD=build/release/libllamalloc.so llamalloc-replay t.trace
)";

// Whether this process gets any: what is resident depends on it.
bool has_huge_pages() {
  const char* setting = huge_pages_in_force(transparent_huge_pages(), huge_page_switch());
  return strcmp(setting, "always") == 0 || strcmp(setting, "madvise") == 0;
}

uint64_t since(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

void print_samples(const ReplayPlayer& player, size_t count) {
  const ReplaySample& before = player.before();
  for (size_t i = 0; i < count; ++i) {
    const ReplaySample& s = player.samples()[i];
    printf("%s{\"time_ns\":%" PRIu64 ",\"live\":%" PRIu64 ",\"resident\":%" PRIu64
           ",\"huge\":%" PRIu64 "}",
           i ? "," : "", s.time, s.live, since(s.resident, before.resident),
           since(s.huge, before.huge));
  }
}

void print_worker(const ReplayPlayer& player) {
  const WorkerWatch& worker = player.worker();
  for (size_t i = 0; i < worker.count(); ++i) {
    const WorkerVisit& visit = worker.visits()[i];
    printf("%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "", visit.event,
           since(visit.at, player.clock().started()));
  }
}

void print(const ReplayPlayer& player, size_t samples) {
  const ReplayClock& clock = player.clock();
  printf("{\"baseline\":%" PRIu64 ",\"duration_ns\":%" PRIu64 ",\"late_ns\":%" PRIu64
         ",\"huge_pages\":%s,\"clock\":[",
         player.before().resident, clock.duration(), clock.late(),
         has_huge_pages() ? "true" : "false");
  for (size_t i = 0; i <= ReplayClock::kMarks; ++i)
    printf("%s%" PRIu64, i ? "," : "", clock.marks()[i]);
  printf("],\"ticks\":[%" PRIu64 ",%" PRIu64 "],\"worker\":[", clock.tick_period(),
         clock.first_tick());
  print_worker(player);
  printf("],\"samples\":[");
  print_samples(player, samples);
  printf("]}\n");
}

double number(const char* option, const char* text, double least, double most) {
  char* end = nullptr;
  const double value = strtod(text, &end);
  if (end == text || *end != 0 || !(value >= least && value <= most))
    stop_replay(2, option, "its number is out of range; see --help");
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  static const option kOptions[] = {
      {"samples", 1, nullptr, 'n'}, {"speed", 1, nullptr, 's'}, {"help", 0, nullptr, 'h'}, {}};
  size_t samples = 100;
  double speed = 1;
  for (int c; (c = getopt_long(argc, argv, "h", kOptions, nullptr)) != -1;) switch (c) {
      case 'n':
        samples = static_cast<size_t>(number("--samples", optarg, 1, 1e6));
        break;
      case 's':
        speed = number("--speed", optarg, 0, 1e9);
        break;
      case 'h':
        fputs(kHelp, stdout);
        return 0;
      default:
        return 2;
    }
  if (optind + 1 != argc) stop_replay(2, "give exactly one trace", "see --help");
  ReplayPlayer player(load_steps(argv[optind]), samples, speed);
  player.run();
  print(player, samples);
  if (!standard_output_is_written())
    stop_replay(1, "standard output: cannot be written", "write to another disk");
}
