// SPDX-License-Identifier: Apache-2.0
#include "policy/context_resolver.h"

namespace llamalloc {

bool ContextResolver::open(MetadataArena& arena) {
  if (varying_ == nullptr) varying_ = arena.make<SiteTable>();
  return varying_ != nullptr && tree_.open(arena);
}

bool ContextResolver::use(const NodeTable& exact, MetadataArena& arena) {
  if (varying_ == nullptr) varying_ = arena.make<SiteTable>();
  if (varying_ != nullptr) exact_ = &exact;
  return varying_ != nullptr;
}

void ContextResolver::look_past(const StackTrace& trace, int frame, SiteTable& sites) {
  const uintptr_t site = trace.frames[frame];
  const uint32_t bytes = trace.sizes[frame];
  const uint32_t before = sites.frame_bytes(site);
  if (before == bytes || bytes == 0 || bytes % 8 != 0 || bytes >= SiteTable::kMostBytes) return;
  if (varying_->frame_bytes(site) != 0) return;
  if (before == 0) return sites.add(site, bytes);
  varying_->add(site, bytes);
  sites.forget_if([site](uintptr_t known) { return known == site; });
}

ContextResolver::Answer ContextResolver::look_up_stack(ContextPath path, const StackTrace& trace,
                                                       SiteTable& sites) {
  Found node{{.found = true, .deeper = true}};
  int passed = 0;
  while (node.found && node.deeper) {
    passed = path.next_frame();
    if (passed >= trace.depth) return {};
    look_past(trace, passed - 1, sites);
    path.descend(trace.codes[passed]);
    node = find(path.key());
  }
  bool whole = passed <= SiteTable::kDepth;
  for (int i = 0; i < passed; ++i)
    whole = whole && sites.frame_bytes(trace.frames[i]) == trace.sizes[i];
  return {node.found, false, node.learned, whole, node.lifetime};
}

}  // namespace llamalloc
