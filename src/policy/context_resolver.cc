// SPDX-License-Identifier: Apache-2.0
#include "policy/context_resolver.h"

namespace llamalloc {

bool ContextResolver::open(MetadataArena& arena) {
  varying_ = arena.make<SiteTable>();
  return varying_ != nullptr && tree_.open(arena);
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

ContextTree::Node ContextResolver::look_up_stack(ContextPath path, const StackTrace& trace,
                                                 SiteTable& sites) {
  ContextTree::Node node{.found = true, .deeper = true};
  while (node.found && node.deeper) {
    const int frame = path.next_frame();
    if (frame >= trace.depth) return {};
    look_past(trace, frame - 1, sites);
    path.descend(trace.codes[frame]);
    node = tree_.find(path.key());
  }
  return node;
}

}  // namespace llamalloc
