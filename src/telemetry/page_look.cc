// SPDX-License-Identifier: Apache-2.0
#include "telemetry/page_look.h"

#include <algorithm>
#include <cstring>

#include "base/sort.h"
#include "profile/sampler.h"

namespace llamalloc {
namespace {

constexpr int kRun = PageLook::kKinds - 1;

int kind_of(const Span& span) {
  const int bin = span.bin_now();  // none of one that becomes free
  return span.kind == SpanKind::slots && bin < kBins ? bin : kRun;
}

// Of the objects that the sample stands for: those have slots of their own size, the sample's is
// one of several sizes.
int kind_of_likes(const Profiler::Live& sample, const Span& span) {
  if (span.kind != SpanKind::slots) return kRun;
  const size_t size = std::min(sample.size, span.object_size());
  return bin_of(group_of_bin(span.bin_now()), size_class_of(size), false);
}

// Sums of live samples, by stack and kind.
class SampleSums {
 public:
  struct Sum {
    uint32_t stack = 0;
    uint32_t number = 0;  // of its kind, from 1; 0: an empty place
    uint32_t here = 0;
    Nanos oldest{};
    double bytes = 0;
  };

  explicit SampleSums(MetadataArena& arena) : sums_(arena.make_array<Sum>(kPlaces)) {}
  bool ok() const { return sums_ != nullptr; }

  // What finds no place counts in no site.
  void add(uint32_t stack, int kind, double bytes, bool here, Nanos age) {
    const uint32_t number = static_cast<uint32_t>(kind) + 1;
    uint32_t at = (stack * 0x9E3779B9u + number * 0x85EBCA6Bu) >> 20;
    for (; used_ < kMost || sums_[at].number != 0; at = (at + 1) % kPlaces) {
      Sum& sum = sums_[at];
      if (sum.number == 0) {
        sum.stack = stack;
        sum.number = number;
        ++used_;
      }
      if (sum.stack != stack || sum.number != number) continue;
      sum.bytes += bytes;
      sum.here += here;
      if (here && sum.oldest < age) sum.oldest = age;
      return;
    }
  }
  // In order of their stacks, from then on.
  Sum* sort() {
    Sum* const end =
        std::remove_if(sums_, sums_ + kPlaces, [](const Sum& s) { return s.number == 0; });
    sort_rows(sums_, static_cast<size_t>(end - sums_),
              [](const Sum& a, const Sum& b) { return a.stack < b.stack; });
    return end;
  }
  Sum* begin() { return sums_; }

 private:
  static constexpr uint32_t kPlaces = 4096;
  static constexpr uint32_t kMost = kPlaces / 4 * 3;

  Sum* sums_;
  uint32_t used_ = 0;
};

// Keeps the largest ones, the largest first.
void insert(PageLook* look, const PageLook::Site& site) {
  uint32_t at = look->site_count;
  while (at != 0 && look->sites[at - 1].bytes < site.bytes) --at;
  if (at == PageLook::kMostSites) return;
  if (look->site_count < PageLook::kMostSites) ++look->site_count;
  for (uint32_t i = look->site_count - 1; i > at; --i) look->sites[i] = look->sites[i - 1];
  look->sites[at] = site;
}

}  // namespace

bool PageLook::copy_page(Heap& heap, uint64_t page_number) {
  *this = PageLook();
  number = page_number;
  bool found = false;
  heap.pages().for_each_page([&](const HugePage& page) {
    if (page.number() != page_number) return;
    found = true;
    const PageCounts counts = heap.count(page);
    group = page.group.load(std::memory_order_relaxed);
    allocated = counts.allocated;
    memory = kHugePageSize - counts.unbacked;
    heap.for_each_span(page, [&](const Span& span) {
      if (span_count == kMostSpans) return;
      const bool run = span.kind != SpanKind::slots;
      const uint32_t objects = run ? 1 : span.slots - span.count_free();
      const size_t size = span.object_size();
      bytes_of_[kind_of(span)] += objects * size;
      spans[span_count++] = {.size = static_cast<uint32_t>(size),
                             .first_block = static_cast<uint16_t>(page.block_at(span.base)),
                             .blocks = static_cast<uint16_t>(Heap::blocks_of(span).n),
                             .objects = static_cast<uint16_t>(objects),
                             .slots = static_cast<uint16_t>(run ? 1 : span.slots),
                             .run = run,
                             .sampled = span.sampled};
    });
  });
  return found;
}

// The span of a live sample stays while the sample's lock is held: its free waits for that.
bool PageLook::find_sites(const Heap& heap, Profiler& profiler, PageSource& system) {
  ScratchPages pages(system);
  MetadataArena arena(pages);
  SampleSums sums(arena);
  double* const all = arena.make_array<double>(kKinds);
  if (!sums.ok() || all == nullptr) return false;
  const auto count = [&](const Profiler::Live& sample, int kind, bool in_page) {
    const double bytes = sample.weight * static_cast<double>(sampled_bytes(sample.size));
    all[kind] += bytes;
    sums.add(sample.stack, kind, bytes, in_page, sample.age);
  };
  profiler.for_each_live(system.now(), [&](const Profiler::Live& sample) {
    const Span* span = heap.find(sample.address);
    if (span == nullptr || span->kind == SpanKind::direct) return;
    const bool in_page = reinterpret_cast<uintptr_t>(sample.address) / kHugePageSize == number;
    const int own = kind_of(*span);
    const int likes = kind_of_likes(sample, *span);
    const bool as_own = bytes_of_[own] != 0;
    const bool as_likes = likes != own && bytes_of_[likes] != 0;
    if (as_own) count(sample, own, in_page);
    if (as_likes) count(sample, likes, in_page && !as_own);
    samples += as_own || as_likes;
    here += in_page && (as_own || as_likes);
  });
  for (int k = 0; k < kKinds; ++k)
    if (all[k] > 0) known += static_cast<double>(bytes_of_[k]);
  for (SampleSums::Sum *s = sums.begin(), *end = sums.sort(); s != end;) {
    Site site{};
    site.stack = s->stack;
    for (; s != end && s->stack == site.stack; ++s) {
      const uint32_t kind = s->number - 1;
      if (all[kind] > 0) site.bytes += s->bytes / all[kind] * static_cast<double>(bytes_of_[kind]);
      site.here += s->here;
      if (site.oldest < s->oldest) site.oldest = s->oldest;
    }
    insert(this, site);
  }
  return true;
}

void PageLook::take_names(const NamedFrames& names, const StackTable& stacks) {
  for (uint32_t s = 0; s < site_count; ++s) {
    Site& site = sites[s];
    site.frames = std::min(stacks.depth(site.stack), kMostFrames);
    for (uint32_t f = 0; f < site.frames; ++f) {
      const uint32_t frame = stacks.frame(site.stack, f);
      if (stacks.address(frame) == 0) {  // not known
        site.frames = f;
        break;
      }
      if (frame >= names.size()) continue;  // newer than the names
      const size_t length = std::min(size_t{names.name_length(frame)}, kLongestName - 1);
      memcpy(site.names[f], names.name(frame), length);
    }
  }
}

bool PageLook::is_consistent() const {
  double bytes = 0;
  for (uint32_t i = 0; i < site_count; ++i) bytes += sites[i].bytes;
  return bytes <= known + 1 && known <= static_cast<double>(allocated) + 1 && here <= samples;
}

// ----- Its JSON -----

bool PageLookJson::add_next(Text* out) {
  if (look_ == nullptr) return false;
  if (!in_sites_) {
    add_head(out);
    in_sites_ = true;
  } else if (next_ < look_->site_count) {
    add_site(look_->sites[next_++], out);
  }
  if (next_ < look_->site_count) return true;
  out->add("]}\n");
  return false;
}

void PageLookJson::add_head(Text* out) const {
  out->add(
      "{\"page\": %llu, \"group\": \"%s\", \"allocated\": %zu, \"memory\": %zu, "
      "\"samples\": %llu, \"samples_here\": %llu, \"known\": %.0f,\n \"spans\": [",
      static_cast<unsigned long long>(look_->number), row(look_->group).name, look_->allocated,
      look_->memory, static_cast<unsigned long long>(look_->samples),
      static_cast<unsigned long long>(look_->here), look_->known);
  for (uint32_t i = 0; i < look_->span_count; ++i) {
    const PageLook::SpanRow& span = look_->spans[i];
    out->add("%s[%u, %u, %u, %u, %u, %d, %d]", i == 0 ? "" : ", ", span.first_block, span.blocks,
             span.size, span.objects, span.slots, span.run, span.sampled);
  }
  out->add("],\n \"sites\": [");
}

void PageLookJson::add_site(const PageLook::Site& site, Text* out) const {
  out->add("%s\n{\"bytes\": %.0f, \"here\": %u, \"oldest\": %.3f, \"frames\": [",
           next_ == 1 ? "" : ",", site.bytes, site.here, static_cast<double>(site.oldest.n) * 1e-9);
  for (uint32_t f = 0; f < site.frames; ++f) {
    if (f != 0) out->add(", ");
    out->add_json_string(site.names[f]);
  }
  out->add("]}");
}

}  // namespace llamalloc
