// SPDX-License-Identifier: Apache-2.0
// The statistics of contracts/control_protocol.md.
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "os/system_facts.h"
#include "runtime/background_state.h"
#include "runtime/idle_caches.h"
#include "runtime/output.h"

namespace llamalloc {
namespace {

class Json {
 public:
  explicit Json(ByteSink& sink) : sink_(sink) {}

  void raw(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    char text[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n > 0) sink_.write(text, static_cast<size_t>(n) < sizeof(text) ? n : sizeof(text) - 1);
  }
  // A string with quotes; control characters and non-ASCII bytes become '?'.
  void string(const char* text) {
    raw("\"");
    for (const char* c = text; *c; ++c) {
      if (*c == '"' || *c == '\\')
        raw("\\%c", *c);
      else
        raw("%c", *c >= 32 && *c < 127 ? *c : '?');
    }
    raw("\"");
  }
  // The comma before every member but the first.
  void next(bool* first) {
    if (!*first) raw(",\n  ");
    *first = false;
  }

 private:
  ByteSink& sink_;
};

void print_stats(Json& json) {
  json.raw(" \"stats\": {");
  bool first = true;
  for (int i = 0; i < kStats; ++i) {
    json.next(&first);
    json.raw("\"%s\": %llu", kStatRows[i].name,
             static_cast<unsigned long long>(process.counters.get(static_cast<Stat>(i))));
  }
  json.raw("},\n");
}

void print_predicted(Json& json) {
  uint64_t contexts[kLifetimeClasses] = {};
  process.placement.cache().for_each([&](LifetimeClass c) { ++contexts[static_cast<int>(c)]; });
  json.raw(" \"predicted\": {");
  bool first = true;
  for (int c = 0; c < kLifetimeClasses; ++c) {
    json.next(&first);
    json.raw("\"%s\": %llu", kLifetimeClassRows[c].name,
             static_cast<unsigned long long>(contexts[c]));
  }
  json.raw("},\n");
}

// Names beyond those known when this began have no sample yet.
void print_tags(Json& json) {
  Profiler::TagSum sums[TagTable::kMost + 1] = {};
  const uint32_t count = process.profiler.tags().size();
  process.profiler.sum_by_tag(sums, count);
  json.raw(" \"tags\": [");
  bool first = true;
  for (uint32_t i = 0; i < count; ++i) {
    const Profiler::TagSum& sum = sums[i];
    if (sum.live_objects + sum.freed_objects == 0) continue;
    json.next(&first);
    json.raw("{\"tag\": ");
    json.string(process.profiler.tags().text(i));
    json.raw(
        ", \"live_objects\": %.0f, \"live_bytes\": %.0f, \"freed_objects\": %.0f, "
        "\"freed_bytes\": %.0f}",
        sum.live_objects, sum.live_bytes, sum.freed_objects, sum.freed_bytes);
  }
  json.raw("],\n");
}

void print_groups(Json& json) {
  json.raw(" \"groups\": [");
  bool first = true;
  for (int g = 0; g < kPageGroups; ++g) {
    const GroupCounts c = process.heap.count(static_cast<PageGroup>(g));
    json.next(&first);
    json.raw(
        "{\"group\": \"%s\", \"pages\": %zu, \"allocated\": %zu, \"free_slots\": %zu, "
        "\"free_blocks\": %zu}",
        kPageGroupRows[g].name, c.pages, c.allocated, c.free_slots, c.free_blocks);
  }
  json.raw("],\n");
}

struct SpanSum {
  size_t objects = 0;
  size_t slots = 0;
};

// One entry a slot size; runs under the size 0, counted as one slot each.
void print_page(Json& json, const HugePage& page, Nanos now) {
  SpanSum sums[kSizeClasses + 1] = {};
  size_t allocated = 0;
  process.heap.for_each_span(page, [&](const Span& span) {
    const bool run = span.kind != SpanKind::slots;
    const size_t objects = run ? 1 : span.slots - span.count_free();
    SpanSum& sum = sums[run ? kSizeClasses : span.bin % kSizeClasses];
    sum.objects += objects;
    sum.slots += run ? 1 : span.slots;
    allocated += objects * span.object_size();
  });
  json.raw(
      "{\"group\": \"%s\", \"promoted\": %s, \"used_blocks\": %d, \"allocated\": %zu, "
      "\"age\": %.3f, \"spans\": [",
      row(page.group).name, page.promoted ? "true" : "false", page.used_blocks, allocated,
      static_cast<double>((now - page.opened).n) * 1e-9);
  const char* comma = "";
  for (int c = 0; c <= kSizeClasses; ++c) {
    if (sums[c].slots == 0) continue;
    json.raw("%s{\"size\": %u, \"objects\": %zu, \"slots\": %zu}", comma,
             c < kSizeClasses ? kSizeClassRows[c].size : 0, sums[c].objects, sums[c].slots);
    comma = ", ";
  }
  json.raw("]}");
}

}  // namespace

void refresh_gauges() {
  Counters& counters = process.counters;
  const PoolCounts pool = process.heap.pool_counts();
  size_t allocated = 0, active = 0, pages = 0, broken = 0, unbacked = 0;
  for (int g = 0; g < kPageGroups; ++g) {
    const GroupCounts group = process.heap.count(static_cast<PageGroup>(g));
    allocated += group.allocated;
    active += group.allocated + group.free_slots;
    pages += group.pages;
    broken += group.broken;
    unbacked += group.unbacked;
  }
  const size_t direct = process.heap.direct_bytes();
  counters.set(Stat::allocated, allocated + direct);
  counters.set(Stat::active, active + direct);
  counters.set(Stat::backed, (pages + pool.empty_backed) * kHugePageSize - unbacked + direct +
                                 process.heap.cached_direct_bytes());
  counters.set(Stat::reserved, pool.reserved_bytes);
  counters.set(Stat::metadata, process.arena.resident_bytes() + process.heap.map_bytes());
  counters.set(Stat::huge_pages_used, pages);
  counters.set(Stat::huge_pages_broken, broken);
  counters.set(Stat::huge_pages_empty, pool.empty_backed);
  counters.set(Stat::huge_pages_acquired, pool.acquired);
  counters.set(Stat::huge_pages_released, pool.released);
  counters.set(Stat::mapped_directly, direct);
  counters.set(Stat::thread_caches, process.threads.in_use());
  counters.set(Stat::samples, process.profiler.samples());
  counters.set(Stat::samples_dropped, process.profiler.dropped());
}

void write_stats_json(ByteSink& sink) {
  refresh_gauges();
  Json json(sink);
  const Nanos now = process.system.now();
  json.raw("{\"version\": 1, \"pid\": %d, \"command\": ", getpid());
  json.string(program_invocation_short_name);
  json.raw(", \"seconds\": %.3f,\n \"model\": ",
           static_cast<double>((now - process.started).n) * 1e-9);
  json.string(process.model_state);
  json.raw(", \"hugepages\": \"%s\", \"idle_caches\": ", transparent_huge_pages());
  json.string(idle_caches_state());
  json.raw(",\n");
  print_stats(json);
  print_tags(json);
  print_predicted(json);
  print_groups(json);
  json.raw(" \"pages\": [");
  bool first = true;
  process.heap.for_each_page([&](const HugePage& page) {
    json.next(&first);
    print_page(json, page, now);
  });
  json.raw("]}\n");
}

void print_summary() {
  refresh_gauges();
  for (int i = 0; i < kStats; ++i)
    print_line("%-22s %14llu %s", kStatRows[i].name,
               static_cast<unsigned long long>(process.counters.get(static_cast<Stat>(i))),
               kStatRows[i].unit);
}

}  // namespace llamalloc
