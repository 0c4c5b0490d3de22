// SPDX-License-Identifier: Apache-2.0
#include "telemetry/heap_map.h"

namespace llamalloc {
namespace {

double seconds(Nanos time) {
  return static_cast<double>(time.n) * 1e-9;
}

// Of rows, of less than 100 bytes each.
constexpr size_t kEnough = Text::kRoom - 512;

}  // namespace

bool HeapMapJson::add_next(Text* out) {
  if (snapshot_ == nullptr) return false;
  if (!in_pages_) {
    add_head(out);
    in_pages_ = true;
  }
  while (next_ < snapshot_->page_count && out->size() < kEnough)
    add_page(snapshot_->pages[next_++], out);
  if (next_ < snapshot_->page_count) return true;
  out->add("]}\n");
  return false;
}

void HeapMapJson::add_head(Text* out) const {
  const ProcessFacts& facts = snapshot_->facts;
  const Figures& figures = snapshot_->figures;
  out->add("{\"version\": 1, \"pid\": %d, \"command\": ", facts.pid);
  out->add_json_string(facts.command);
  out->add(", \"seconds\": %.3f, \"gate\": ", seconds(snapshot_->now - facts.started));
  out->add_json_string(facts.segregation);
  out->add(",\n \"groups\": [");
  for (const PageGroupRow& group : kPageGroupRows)
    out->add("%s[\"%s\", %.0f]", &group == kPageGroupRows ? "" : ", ", group.name,
             seconds(group.deadline));
  const auto number = [&](const char* name, Stat stat) {
    out->add(", \"%s\": %llu", name, static_cast<unsigned long long>(figures.stat(stat)));
  };
  out->add("], \"samples\": %d", facts.sampling);
  number("allocated", Stat::allocated);
  number("backed", Stat::backed);
  number("empty", Stat::huge_pages_empty);
  number("direct", Stat::mapped_directly);
  out->add(",\n \"left_out\": %zu, \"pages\": [", snapshot_->pages_left_out);
}

void HeapMapJson::add_page(const PageRow& page, Text* out) const {
  out->add("%s[%u, %d, %d, %u, %u, %.1f, %.1f]", &page == snapshot_->pages ? "" : ",\n",
           page.number, static_cast<int>(page.group), page.promoted + 2 * page.broken,
           page.used_blocks, page.allocated, seconds(snapshot_->now - page.opened),
           seconds(snapshot_->now - page.last_taken));
}

}  // namespace llamalloc
