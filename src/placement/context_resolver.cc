// SPDX-License-Identifier: Apache-2.0
#include "placement/context_resolver.h"

namespace llamalloc {

bool ContextResolver::open(MetadataArena& arena) {
  if (varying_ == nullptr) varying_ = arena.make<SiteTable>();
  return varying_ != nullptr && tree_.open(arena);
}

bool ContextResolver::use(const ModelEvidence& model, KnownNames* names, MetadataArena& arena) {
  if (varying_ == nullptr) varying_ = arena.make<SiteTable>();
  if (varying_ == nullptr) return false;
  model_ = &model;
  names_ = names;
  return true;
}

const StackTrace& ContextResolver::Stack::walked() {
  if (trace_.depth == 0) walk_.walk(walk_.how, &trace_);
  return trace_;
}

// A function of which no name leads on may still be on the way to a node, but only behind the
// frames that count as callers.
bool ContextResolver::Stack::look(int frame, FrameName* out) {
  if (frame >= ModelEvidence::kNamedFrames) return false;
  if (frame > 0 && frame >= walked().depth) return false;
  const bool named = names_->name_frame(trace_.frames[frame], &last_, out);
  const bool tells = frame < ModelEvidence::kSearchedCallers || out->function != 0;
  is_lost_ = is_lost_ || !named || !tells;
  return !is_lost_;
}

bool ContextResolver::look_past(const StackTrace& trace, int frame, SiteTable& sites) {
  const uintptr_t site = trace.frames[frame];
  const uint32_t bytes = trace.sizes[frame];
  const uint32_t before = sites.frame_bytes(site);
  if (before == bytes || bytes == 0 || bytes % 8 != 0 || bytes >= SiteTable::kMostBytes)
    return false;
  if (varying_->frame_bytes(site) != 0) return false;
  if (before == 0) {
    sites.add(site, bytes);
    return false;
  }
  varying_->add(site, bytes);
  sites.forget_if([site](uintptr_t known) { return known == site; });
  return true;
}

ContextResolver::Answer ContextResolver::look_further(const ContextPath& path, const Found& node,
                                                      const Walk& walk, SiteTable& sites) {
  Stack stack(walk, names_);
  Answer answer;
  if (node.found) answer = look_up_stack(path, stack.walked(), sites);
  if (answer.known || names_ == nullptr) return answer;
  answer = ask_names(stack, walk.size, sites);
  answer.by_site = answer.by_site && !node.found;  // where callers were learned, they decide
  return answer;
}

ContextResolver::Answer ContextResolver::look_up_stack(ContextPath path, const StackTrace& trace,
                                                       SiteTable& sites) {
  int passed = 0;
  bool varies = false;
  const Found node = follow(path, {{.found = true, .deeper = true}}, trace, &passed,
                            [&](int frame) { varies = look_past(trace, frame, sites) || varies; });
  if (passed < 0) return {};
  const bool whole = looks_past_all(trace, passed, sites);
  Answer answer{node.found, false, node.learned, whole, node.lifetime, {}, varies};
  if (node.learned && whole) answer.path = path_of(trace, passed);
  return answer;
}

int ContextResolver::callers_asked(const StackTrace& trace, size_t size) const {
  if (!is_open() || trace.depth == 0) return kCallersOfUnknown;
  const ContextPath path(trace.codes[0], size_bucket(size));
  int passed = 0;
  const Found node = follow(path, find(path.key()), trace, &passed, [](int) {});
  return node.found && passed <= CallPath::kMostCallers ? passed : kCallersOfUnknown;
}

CallPath ContextResolver::path_of(const StackTrace& trace, int callers) {
  CallPath path{.callers = callers};
  for (int i = 0; i <= callers; ++i) path.frames[i] = trace.frames[i];
  for (int i = 0; i < callers; ++i) path.bytes[i] = trace.sizes[i];
  return path;
}

bool ContextResolver::looks_past_all(const StackTrace& trace, int frames,
                                     const SiteTable& sites) const {
  bool whole = frames <= SiteTable::kDepth;
  for (int i = 0; i < frames; ++i)
    whole = whole && trace.sizes[i] != 0 && sites.frame_bytes(trace.frames[i]) == trace.sizes[i];
  return whole;
}

ContextResolver::Answer ContextResolver::ask_names(Stack& stack, size_t size, SiteTable& sites) {
  const ModelEvidence::Answer named = model_->find_named(stack, size);
  const bool answers = named.kind != EvidenceKind::none && !model_->asks_network(named);
  if (!answers || stack.is_lost()) return {};
  if (named.callers == 0) return {true, true, false, true, named.lifetime, {}};
  bool varies = false;
  for (int i = 0; i < named.callers; ++i) varies = look_past(stack.walked(), i, sites) || varies;
  const bool whole = looks_past_all(stack.walked(), named.callers, sites);
  return {true, false, false, whole, named.lifetime, {}, varies};
}

}  // namespace llamalloc
