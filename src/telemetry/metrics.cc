// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.h"

#include <cstdio>
#include <cstring>

#include "base/lifetime_class.h"

namespace llamalloc {
namespace {

constexpr size_t kEnough = Text::kRoom / 2;

void add_head(const char* name, const char* type, const char* help, Text* out) {
  out->add("# HELP llamalloc_%s %s\n# TYPE llamalloc_%s %s\n", name, help, name, type);
}

void add_gauge(const char* name, const char* help, double value, Text* out) {
  add_head(name, "gauge", help, out);
  out->add("llamalloc_%s %.15g\n", name, value);
}

// The text of a label: a backslash and a quote are special. What is not printable ASCII, in the
// path of a file perhaps, need not be UTF-8, without which all is refused.
void add_label(const char* name, const char* value, Text* out) {
  out->add("%s=\"", name);
  for (const char* c = value; *c; ++c) {
    if (*c == '\\' || *c == '"') out->append("\\", 1);
    out->append(*c == '\n' ? " " : *c >= 32 && *c < 127 ? c : "?", 1);
  }
  out->append("\"", 1);
}

// Whether the name says that it is a time in nanoseconds; *length: without that.
bool is_time(const StatRow& row, int* length) {
  constexpr char kNanos[] = "_nanos";
  constexpr int kLength = sizeof(kNanos) - 1;
  *length = static_cast<int>(strlen(row.name));
  if (strcmp(row.unit, "nanoseconds") != 0) return false;
  if (*length > kLength && strcmp(row.name + *length - kLength, kNanos) == 0) *length -= kLength;
  return true;
}

}  // namespace

Metrics::Metrics(const Figures& figures, const uint64_t (&predicted)[kLifetimeClasses],
                 const MetricsFacts& facts)
    : figures_(figures), facts_(facts), part_(Part::stats) {
  memcpy(predicted_, predicted, sizeof(predicted_));
}

bool Metrics::add_next(Text* out) {
  switch (part_) {
    case Part::stats:
      while (next_ < kStats && out->size() < kEnough) add_stat(next_++, out);
      if (next_ == kStats) part_ = Part::groups;
      return true;
    case Part::groups:
      add_groups(out);
      add_predicted(out);
      part_ = Part::state;
      return true;
    case Part::state:
      add_state(out);
      part_ = Part::done;
      return false;
    case Part::done:
      break;
  }
  return false;
}

void Metrics::add_stat(int stat, Text* out) const {
  const StatRow& row = kStatRows[stat];
  int length;
  const bool time = is_time(row, &length);
  const bool bytes = strcmp(row.unit, "bytes") == 0;
  char name[64];
  snprintf(name, sizeof(name), "%.*s%s%s", length, row.name,
           bytes  ? "_bytes"
           : time ? "_seconds"
                  : "",
           row.kind[0] == 'c' ? "_total" : "");
  add_head(name, row.kind, row.help, out);
  const uint64_t value = figures_.stats[stat];
  if (time)
    out->add("llamalloc_%s %.9f\n", name, static_cast<double>(value) * 1e-9);
  else
    out->add("llamalloc_%s %llu\n", name, static_cast<unsigned long long>(value));
}

void Metrics::add_groups(Text* out) const {
  struct Column {
    const char* name;
    const char* help;
    size_t GroupCounts::* value;
  };
  static constexpr Column kColumns[] = {
      {"group_huge_pages", "huge pages in use, by page group", &GroupCounts::pages},
      {"group_slot_bytes",
       "size of the slots in use, by page group; objects above 256 KiB have none",
       &GroupCounts::allocated},
      {"group_free_slot_bytes", "size of the free slots, by page group", &GroupCounts::free_slots},
  };
  for (const Column& column : kColumns) {
    add_head(column.name, "gauge", column.help, out);
    for (int g = 0; g < kPageGroups; ++g)
      out->add("llamalloc_%s{group=\"%s\"} %zu\n", column.name, kPageGroupRows[g].name,
               figures_.groups[g].*column.value);
  }
}

void Metrics::add_predicted(Text* out) const {
  add_head("predicted_contexts", "gauge", "contexts in the prediction cache, by lifetime class",
           out);
  for (int c = 0; c < kLifetimeClasses; ++c)
    out->add("llamalloc_predicted_contexts{class=\"%s\"} %llu\n", kLifetimeClassRows[c].name,
             static_cast<unsigned long long>(predicted_[c]));
}

void Metrics::add_state(Text* out) const {
  const double pages = static_cast<double>(figures_.stat(Stat::huge_pages_used));
  const double broken = static_cast<double>(figures_.stat(Stat::huge_pages_broken));
  add_gauge("huge_page_coverage_ratio",
            "part of the 2 MiB pages in use that are huge pages, as far as llamalloc knows",
            pages == 0       ? 0
            : broken > pages ? 0
                             : (pages - broken) / pages,
            out);
  if (facts_.charge != SIZE_MAX)
    add_gauge("charge_bytes",
              "memory that the kernel counts for the process's control group, less page cache",
              static_cast<double>(facts_.charge), out);
  add_gauge("learning", "whether lifetimes are learned in this process", facts_.learning, out);
  add_gauge("placement", "whether objects are placed by lifetime now", facts_.placement, out);
  add_gauge("sampling", "whether allocations are sampled", facts_.sampling, out);
  add_gauge("sample_interval_bytes", "average number of bytes between two samples",
            static_cast<double>(facts_.sample_interval), out);
  add_gauge("start_time_seconds", "when the process started, since the epoch", facts_.start_seconds,
            out);
  add_head("info", "gauge", "version and state of the library; always 1", out);
  out->add("llamalloc_info{");
  add_label("version", facts_.version, out);
  out->append(",", 1);
  add_label("hugepages", facts_.hugepages, out);
  out->append(",", 1);
  add_label("model", facts_.model, out);
  out->add("} 1\n");
}

}  // namespace llamalloc
