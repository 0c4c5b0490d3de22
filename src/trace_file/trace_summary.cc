// SPDX-License-Identifier: Apache-2.0
#include "trace_file/trace_summary.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>

#include "trace_file/json_writer.h"
#include "trace_file/trace_reader.h"

namespace llamalloc::trace {

void TraceSummary::change_live(uint64_t before, uint64_t after, uint64_t time) {
  live_bytes += after - before;
  if (live_bytes <= peak_bytes) return;
  peak_bytes = live_bytes;
  peak_objects = live_objects;
  peak_time = time;
}

void TraceSummary::add(const Event& event) {
  ++events[static_cast<size_t>(event.kind)];
  duration = event.time;
  if (event.kind == EventKind::allocate) {
    const uint64_t place = unused_.empty() ? live_.size() : unused_.back();
    if (unused_.empty())
      live_.emplace_back();
    else
      unused_.pop_back();
    live_[place] = {event.size, event.time, event.stack, event.thread};
    place_.put(event.object, place);
    ++live_objects;
    change_live(0, event.size, event.time);
    StackSummary& stack = stacks_[event.stack];
    ++stack.objects;
    stack.bytes += event.size;
    stack.live_bytes += event.size;
    allocated_bytes += event.size;
    ++sizes[std::bit_width(event.size)];
    size_bytes[std::bit_width(event.size)] += event.size;
    return;
  }
  const uint64_t place = place_.take(event.object);
  Live& live = live_[place];
  StackSummary& stack = stacks_[live.stack];
  stack.live_bytes += event.size - live.size;
  if (event.kind == EventKind::resize) {
    allocated_bytes += event.size > live.size ? event.size - live.size : 0;
    change_live(live.size, event.size, event.time);
    live.size = event.size;
    place_.put(event.object, place);
    return;
  }
  --live_objects;
  change_live(live.size, 0, event.time);
  ++stack.frees;
  stack.lifetime_sum += event.time - live.time;
  ++lifetimes[std::bit_width(event.time - live.time)];
  foreign_frees += live.thread != event.thread;
  unused_.push_back(place);
}

namespace {

void add_histogram(JsonWriter& json, const char* key, const std::array<uint64_t, 65>& counts) {
  size_t end = counts.size();
  while (end > 0 && counts[end - 1] == 0) --end;
  json.open(key, '[');
  for (size_t i = 0; i < end; ++i) json.number(nullptr, counts[i]);
  json.close(']');
}

std::string frame_text(const Tables& tables, uint32_t number) {
  const Frame& frame = tables.frames[number];
  if (!frame.name.empty() && frame.name != "?") return frame.name;
  char text[32];
  snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(frame.address));
  return text;
}

void add_stack(JsonWriter& json, const Tables& tables, uint32_t number, const StackSummary& stack) {
  json.open(nullptr, '{');
  json.number("stack", number);
  json.number("objects", stack.objects);
  json.number("bytes", stack.bytes);
  json.number("live_bytes", stack.live_bytes);
  json.number("mean_lifetime_ns", stack.frees ? stack.lifetime_sum / stack.frees : 0);
  json.open("frames", '[');
  for (const uint32_t frame : tables.stacks[number])
    json.string(nullptr, frame_text(tables, frame));
  json.close(']');
  json.close('}');
}

void add_file(JsonWriter& json, const TraceReader& reader) {
  const Contents& contents = reader.contents();
  const FileHeader& header = reader.file().header();
  json.string("file", reader.file().name());
  json.number("version", header.version);
  json.number("file_bytes", reader.file().bytes());
  json.string("command", contents.command);
  json.number("pid", header.pid);
  json.number("wall_ns", header.wall_ns);
  json.flag("ended_in_order", contents.ended_in_order);
  json.number("lost_bytes", reader.file().lost_bytes());
  json.number("missing_frees", reader.missing_frees());
  json.number("unknown_frees", reader.unknown_frees());
  json.number("threads", reader.threads());
  json.number("stacks", contents.tables.stacks.size() - 1);
  json.number("frames", contents.tables.frames.size());
  json.number("modules", contents.tables.modules.size());
}

}  // namespace

std::string to_json(const TraceSummary& summary, const TraceReader& reader, size_t top_stacks) {
  JsonWriter json(JsonBytes::by_number);
  json.open(nullptr, '{');
  add_file(json, reader);
  json.number("allocations", summary.events[0]);
  json.number("resizes", summary.events[1]);
  json.number("frees", summary.events[2]);
  json.number("foreign_frees", summary.foreign_frees);
  json.number("duration_ns", summary.duration);
  json.number("allocated_bytes", summary.allocated_bytes);
  json.number("peak_bytes", summary.peak_bytes);
  json.number("peak_objects", summary.peak_objects);
  json.number("peak_time_ns", summary.peak_time);
  json.number("live_bytes", summary.live_bytes);
  json.number("live_objects", summary.live_objects);
  add_histogram(json, "objects_by_size_bits", summary.sizes);
  add_histogram(json, "bytes_by_size_bits", summary.size_bytes);
  add_histogram(json, "frees_by_lifetime_bits", summary.lifetimes);
  std::vector<uint32_t> order(summary.stacks().size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const uint64_t left = summary.stacks()[a].bytes, right = summary.stacks()[b].bytes;
    return left != right ? left > right : a < b;
  });
  json.open("top_stacks", '[');
  for (size_t i = 0; i < order.size() && i < top_stacks; ++i)
    if (summary.stacks()[order[i]].objects > 0)
      add_stack(json, reader.tables(), order[i], summary.stacks()[order[i]]);
  json.close(']');
  json.close('}');
  return json.take() + "\n";
}

}  // namespace llamalloc::trace
