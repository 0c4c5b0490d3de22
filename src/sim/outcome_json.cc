// SPDX-License-Identifier: Apache-2.0
#include "sim/outcome_json.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "trace_file/json_writer.h"

namespace llamalloc::sim {
namespace {

double ratio(uint64_t part, uint64_t whole) {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

void write_losses(JsonWriter& json, const Moment& moment) {
  json.number("rounding", moment.losses.rounding);
  json.number("free_slots", moment.losses.free_slots);
  json.number("free_blocks", moment.losses.free_blocks);
  json.number("empty_pages", moment.losses.empty_pages);
  json.number("thread_caches", moment.losses.thread_caches);
  json.number("metadata", moment.losses.metadata);
}

void write_moment(JsonWriter& json, const Moment& moment) {
  static const char* const kKinds[] = {"sample", "peak", "drop", "end"};
  json.open(nullptr, '{');
  json.number("time_ns", moment.time);
  json.string("kind", kKinds[static_cast<int>(moment.kind)]);
  json.number("live", moment.live);
  json.number("huge", moment.footprint.huge);
  json.number("small", moment.footprint.small);
  json.number("resident", moment.footprint.resident);
  json.number("covered", moment.footprint.covered);
  write_losses(json, moment);
  if (moment.kind != MomentKind::sample) {
    json.number("objects", moment.objects);
    json.number("outlivers", moment.outlivers);
    json.number("pinned", moment.pinned);
    json.number("pinned_pages", moment.pinned_pages);
    json.number("map_pages", moment.map_pages);
    json.open("map", '[');
    for (const std::string& page : moment.map) json.string(nullptr, page);
    json.close(']');
  }
  json.close('}');
}

void write_trace(JsonWriter& json, const RunNames& names, const Survey& survey) {
  json.open("trace", '{');
  json.string("file", names.trace);
  json.flag("ended_in_order", names.ended_in_order);
  json.number("events", survey.events);
  json.number("objects", survey.objects);
  json.number("frees", survey.frees);
  json.number("resizes", survey.resizes);
  json.number("placements", survey.lifetimes.size());
  json.number("contexts", survey.context_table.size());
  json.number("threads", survey.threads);
  json.number("allocated_bytes", survey.allocated_bytes);
  json.number("duration_ns", survey.duration);
  json.number("peak_time_ns", survey.peak_time);
  json.number("peak_live", survey.peak_live);
  json.number("drops", survey.drops.size());
  json.close('}');
}

void write_lifetimes(JsonWriter& json, const Survey& survey) {
  uint64_t counts[64] = {}, alive = 0;
  for (const uint64_t lifetime : survey.lifetimes) {
    if (lifetime == kNeverFreed)
      ++alive;
    else
      ++counts[lifetime ? std::bit_width(lifetime) - 1 : 0];
  }
  json.open("lifetimes_log2_ns", '[');
  for (const uint64_t count : counts) json.number(nullptr, count);
  json.close(']');
  json.number("never_freed", alive);
}

void write_classes(JsonWriter& json, const Prediction& prediction, const Outcome& outcome) {
  json.open("classes", '[');
  for (int i = 0; i < kLifetimeClasses; ++i) {
    json.open(nullptr, '{');
    json.string("name", kLifetimeClassRows[i].name);
    json.number("placements", prediction.placements[i]);
    json.number("outlived", prediction.outlived[i]);
    json.number("bytes", outcome.classes[i].bytes);
    json.close('}');
  }
  json.close(']');
}

void write_gate(JsonWriter& json, const Outcome& outcome) {
  static const char* const kVerdicts[] = {"untried", "on trial", "helps", "fails", "mistaken"};
  static_assert(std::size(kVerdicts) == kGateVerdicts);
  json.open("gate", '[');
  for (const GateNote& note : outcome.gate) {
    json.open(nullptr, '{');
    json.number("time_ns", note.time);
    json.flag("placing", note.placing);
    json.flag("late", note.late);
    json.string("verdict", kVerdicts[static_cast<int>(note.verdict)]);
    json.string("says", note.says);
    json.close('}');
  }
  json.close(']');
}

void write_totals(JsonWriter& json, const Survey& survey, const Outcome& outcome) {
  const Totals t = totals(survey, outcome);
  json.open("totals", '{');
  json.real("average", t.average);
  json.real("average_small", t.average_small);
  json.real("after_drops", t.drop);
  json.real("after_drops_small", t.drop_small);
  json.real("worst_drop", t.worst_drop);
  json.real("peak", t.peak_ratio);
  json.real("coverage", t.coverage);
  json.number("peak_footprint", outcome.peak_footprint);
  json.number("huge_pages_acquired", outcome.acquired);
  json.close('}');
}

void write_releases(JsonWriter& json, const ReleaseReport& releases) {
  json.open("releases", '{');
  json.number("realized_fragmentation", releases.realized);
  json.number("average_fragmentation", releases.average);
  json.number("pages_broken", releases.pages_broken);
  json.number("bytes_broken", releases.bytes_broken);
  json.number("pages_mended", releases.mended);
  json.number("huge_pages_refetched", releases.refetched);
  json.number("skipped", releases.skipped);
  json.number("skipped_right", releases.right);
  json.number("skipped_wrong", releases.wrong);
  json.number("broken_by_rate", releases.broken_by_rate);
  json.number("hold_empty_ns", releases.hold_empty);
  json.number("hold_mappings_ns", releases.hold_mappings);
  json.close('}');
}

}  // namespace

Totals totals(const Survey& survey, const Outcome& outcome) {
  uint64_t live = 0, small = 0, resident = 0, covered = 0;
  uint64_t drop_live = 0, drop = 0, drop_small = 0;
  Totals t;
  for (const Moment& m : outcome.moments) {
    if (m.kind == MomentKind::sample) {
      live += m.live;
      small += m.footprint.small;
      resident += m.footprint.resident;
      covered += m.footprint.covered;
    } else if (m.kind == MomentKind::drop) {
      drop_live += m.live;
      drop += m.footprint.resident;
      drop_small += m.footprint.small;
      t.worst_drop = std::max(t.worst_drop, ratio(m.footprint.resident, m.live));
    }
  }
  t.average = ratio(resident, live);
  t.average_small = ratio(small, live);
  t.drop = ratio(drop, drop_live);
  t.drop_small = ratio(drop_small, drop_live);
  t.peak_ratio = ratio(outcome.peak_footprint, survey.peak_live);
  t.coverage = ratio(covered, resident);
  return t;
}

std::string to_json(const RunNames& names, const Survey& survey, const Prediction& prediction,
                    const Outcome& outcome) {
  JsonWriter json(JsonBytes::as_they_are);
  json.open(nullptr, '{');
  json.string("policy", names.policy);
  json.string("predictor", names.predictor);
  json.real("error", names.error);
  json.number("seed", names.seed);
  json.real("events_per_second",
            names.seconds > 0 ? static_cast<double>(outcome.events) / names.seconds : 0);
  json.number("known_contexts", prediction.known_contexts);
  write_trace(json, names, survey);
  write_totals(json, survey, outcome);
  write_releases(json, outcome.releases);
  write_classes(json, prediction, outcome);
  write_lifetimes(json, survey);
  write_gate(json, outcome);
  json.open("moments", '[');
  for (const Moment& moment : outcome.moments) write_moment(json, moment);
  json.close(']');
  json.close('}');
  return json.take();
}

}  // namespace llamalloc::sim
