// SPDX-License-Identifier: Apache-2.0
#include "telemetry/stats_json.h"

namespace llamalloc {
namespace {

double seconds(Nanos time) {
  return static_cast<double>(time.n) * 1e-9;
}

// The separator before every member but the first.
const char* comma(bool* first) {
  const char* text = *first ? "" : ",\n  ";
  *first = false;
  return text;
}

unsigned long long number(uint64_t n) {
  return n;
}

bool is_unused(const Profiler::TagSum& sum) {
  return sum.live_objects + sum.freed_objects == 0;
}

}  // namespace

bool StatsJson::add_next(Text* out) {
  switch (part_) {
    case Part::head:
      add_head(out);
      add_stats(out);
      out->add(" \"tags\": [");
      part_ = Part::tags;
      return true;
    case Part::tags:  // each piece has something in it: an empty one would mean to wait
      while (next_ < snapshot_->tag_count && is_unused(snapshot_->tags[next_])) ++next_;
      if (next_ < snapshot_->tag_count) return add_tag(out), true;
      out->add("],\n");
      part_ = Part::groups;
      return true;
    case Part::groups:
      add_predicted(out);
      add_groups(out);
      out->add(" \"pages_left_out\": %zu,\n \"pages\": [", snapshot_->pages_left_out);
      part_ = Part::pages;
      next_ = 0;
      return true;
    case Part::pages:
      if (next_ < snapshot_->page_count) return add_page(out), true;
      out->add("]}\n");
      part_ = Part::done;
      return false;
    case Part::done:
      break;
  }
  return false;
}

void StatsJson::add_head(Text* out) const {
  const ProcessFacts& facts = snapshot_->facts;
  out->add("{\"version\": 1, \"pid\": %d, \"command\": ", facts.pid);
  out->add_json_string(facts.command);
  out->add(", \"seconds\": %.3f,\n \"model\": ", seconds(snapshot_->now - facts.started));
  out->add_json_string(facts.model);
  out->add(", \"hugepages\": \"%s\", \"idle_caches\": ", facts.hugepages);
  out->add_json_string(facts.idle_caches);
  out->add(",\n \"learning\": ");
  out->add_json_string(facts.learning);
  out->add(", \"segregation\": ");
  out->add_json_string(facts.segregation);
  if (facts.charge == SIZE_MAX)
    out->add(", \"charge\": null,\n");
  else
    out->add(", \"charge\": %zu,\n", facts.charge);
}

void StatsJson::add_stats(Text* out) const {
  out->add(" \"stats\": {");
  bool first = true;
  for (int i = 0; i < kStats; ++i)
    out->add("%s\"%s\": %llu", comma(&first), kStatRows[i].name,
             number(snapshot_->figures.stats[i]));
  out->add("},\n");
  if (snapshot_->facts.peak != nullptr) add_peak(*snapshot_->facts.peak, out);
}

void StatsJson::add_peak(const PeakFigures& peak, Text* out) const {
  out->add(" \"peak\": {\"seconds\": %.3f, \"stats\": {",
           seconds(peak.at - snapshot_->facts.started));
  bool first = true;
  for (int i = 0; i < kStats; ++i)
    out->add("%s\"%s\": %llu", comma(&first), kStatRows[i].name, number(peak.stats[i]));
  out->add("}},\n");
}

void StatsJson::add_tag(Text* out) {
  const uint32_t tag = next_++;
  const Profiler::TagSum& sum = snapshot_->tags[tag];
  out->add("%s{\"tag\": ", comma(&first_));
  out->add_json_string(snapshot_->tag_names->text(tag));
  out->add(
      ", \"live_objects\": %.0f, \"live_bytes\": %.0f, \"freed_objects\": %.0f, "
      "\"freed_bytes\": %.0f}",
      sum.live_objects, sum.live_bytes, sum.freed_objects, sum.freed_bytes);
}

void StatsJson::add_predicted(Text* out) const {
  out->add(" \"predicted\": {");
  bool first = true;
  for (int c = 0; c < kLifetimeClasses; ++c)
    out->add("%s\"%s\": %llu", comma(&first), kLifetimeClassRows[c].name,
             number(snapshot_->predicted[c]));
  out->add("},\n");
}

void StatsJson::add_groups(Text* out) const {
  out->add(" \"groups\": [");
  bool first = true;
  for (int g = 0; g < kPageGroups; ++g) {
    const GroupCounts& c = snapshot_->figures.groups[g];
    out->add(
        "%s{\"group\": \"%s\", \"pages\": %zu, \"allocated\": %zu, \"free_slots\": %zu, "
        "\"free_blocks\": %zu}",
        comma(&first), kPageGroupRows[g].name, c.pages, c.allocated, c.free_slots, c.free_blocks);
  }
  out->add("],\n");
}

// One entry a slot size; runs under the size 0, counted as one slot each.
void StatsJson::add_page(Text* out) {
  const PageRow& page = snapshot_->pages[next_];
  out->add(
      "%s{\"group\": \"%s\", \"promoted\": %s, \"used_blocks\": %d, \"allocated\": %u, "
      "\"age\": %.3f, \"spans\": [",
      next_ == 0 ? "" : ",\n  ", row(page.group).name, page.promoted ? "true" : "false",
      page.used_blocks, page.allocated, seconds(snapshot_->now - page.opened));
  const char* between = "";
  for (uint32_t i = snapshot_->slots_start(next_); i < page.slots_end; ++i) {
    const SlotRow& slots = snapshot_->slots[i];
    const int c = slots.size_class;
    out->add("%s{\"size\": %u, \"objects\": %llu, \"slots\": %llu}", between,
             c < kSizeClasses ? kSizeClassRows[c].size : 0, number(slots.objects),
             number(slots.slots));
    between = ", ";
  }
  out->add("]}");
  ++next_;
}

void write_stats_json(ProcessSnapshot* snapshot, ByteSink& sink) {
  StatsJson json(*snapshot);
  Text& piece = snapshot->scratch;
  for (bool more = true; more;) {
    piece.clear();
    more = json.add_next(&piece);
    sink.write(piece.data(), piece.size());
  }
}

}  // namespace llamalloc
