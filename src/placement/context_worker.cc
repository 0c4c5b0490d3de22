// SPDX-License-Identifier: Apache-2.0
#include "placement/context_worker.h"

#include <cstdio>

#include "base/hash.h"
#include "base/size_bucket.h"

namespace llamalloc {

bool ContextWorker::make_tables(MetadataArena& arena) {
  callers_ = arena.make_array<Caller>(kCallers);
  verdicts_ = arena.make_array<Verdict>(kVerdicts);
  names_ = static_cast<char(*)[kNameRoom]>(arena.allocate(kNamedFrames * kNameRoom));
  return callers_ != nullptr && verdicts_ != nullptr && names_ != nullptr && queue_.open(arena) &&
         code_->watch(arena);
}

bool ContextWorker::open(Evaluator& evaluator, LoadedCode& code, const Origin& origin,
                         MetadataArena& arena, char* error, size_t room) {
  using Match = ModelEvidence::Origin;
  error[0] = '\0';
  const Match match = evaluator.evidence().origin(origin.program, origin.build);
  if (match == Match::other_program) {
    snprintf(error, room, "model %.200s: of %.100s, not of %.100s; train one for it", origin.path,
             evaluator.evidence().programs, origin.program);
    return false;
  }
  code_ = &code;
  if (!make_tables(arena)) {
    snprintf(error, room, "model %s: no memory for the tables of the worker", origin.path);
    return false;
  }
  evaluator_ = &evaluator;
  if (match == Match::other_build)
    snprintf(error, room,
             "model %.200s: of another build of %.100s; only what holds for function names and for "
             "the libraries of that build is used",
             origin.path, origin.program);
  return true;
}

bool ContextWorker::share_tables(ContextResolver& resolver, KnownNames* names,
                                 MetadataArena& arena) {
  if (evidence().exact.size() == 0 && names == nullptr) return true;
  resolver_ = &resolver;
  return resolver.use(evidence(), names, arena);
}

int ContextWorker::work(Placement& placement, Counters& counters, PageSource& clock) {
  forget_unloaded(placement, counters);
  forget_starved(placement, clock);
  return queue_.for_each_ready([&](Miss& miss) {
    const Nanos start = clock.now();
    StackTrace trace;
    code_->unwind(miss.snapshot, &trace);
    if (trace.truncated) counters.add(Stat::stacks_truncated);
    find_wrappers(trace, placement.cache().sites);
    const LifetimeClass lifetime = evaluate(trace, miss.size);
    if (starved_ && miss.recheck) return;  // it keeps its class
    if (starved_) note_starved(miss.key, start);
    const uint64_t site_key = starved_ ? 0 : miss.site_key;
    placement.publish(miss.key, site_key, lifetime, miss.recheck, marks_of(trace));
    counters.add(Stat::predict_evaluated);
    counters.add(Stat::predict_nanos, static_cast<uint64_t>((clock.now() - start).n));
  });
}

// The contexts that wait may be of a module that is gone: they are asked for again if not.
void ContextWorker::forget_unloaded(Placement& placement, Counters& counters) {
  const uint8_t gone = code_->look_for_unloaded();
  if (gone == 0) return;
  queue_.for_each_ready([&](Miss& miss) {
    if (!miss.recheck) placement.abandon(miss.key);
  });
  const auto is_gone = [this](uintptr_t address) { return !code_->stayed(address); };
  placement.cache().sites.forget_if(is_gone);
  if (resolver_ != nullptr) {
    resolver_->forget_if(is_gone);
    placement.cache().decided.clear();
  }
  for (Caller* seen = callers_; seen != callers_ + kCallers; ++seen)
    if (seen->site != 0 && (is_gone(seen->site) || is_gone(seen->first_caller))) *seen = {};
  for (Verdict* known = verdicts_; known != verdicts_ + kVerdicts; ++known)
    if (known->context != 0) *known = {};
  counters.add(Stat::predict_forgotten, placement.cache().forget_marked(gone));
}

void ContextWorker::note_starved(uint64_t key, Nanos now) {
  if (starved_count_ == 0) starved_since_ = now;
  if (starved_count_ < kMostStarved) starved_keys_[starved_count_] = key;
  ++starved_count_;
}

void ContextWorker::forget_starved(Placement& placement, PageSource& clock) {
  if (starved_count_ == 0 || clock.now() - starved_since_ < kStarvedPause) return;
  if (starved_count_ > kMostStarved) placement.cache().clear();
  for (uint32_t i = 0; i < starved_count_ && i < kMostStarved; ++i)
    placement.abandon(starved_keys_[i]);
  starved_count_ = 0;
}

// A key may be made of as many return addresses as it can look past, and one more; where the trace
// does not show them all, of any.
Placement::Marks ContextWorker::marks_of(const StackTrace& trace) const {
  Placement::Marks marks;
  for (int i = 0; i <= SiteTable::kDepth && i < trace.depth; ++i)
    marks.context |= code_->mark_of(trace.frames[i]);
  if (trace.truncated && trace.depth <= SiteTable::kDepth) marks.context |= kUnknownModule;
  if (trace.depth > 0) marks.site = code_->mark_of(trace.frames[0]);
  return marks;
}

LifetimeClass ContextWorker::evaluate(const StackTrace& trace, size_t size) {
  const uint64_t context = mix(trace.hash(), size_bucket(size)) | 1;
  Verdict& verdict = verdicts_[context >> 1 & (kVerdicts - 1)];
  starved_ = false;
  if (verdict.context == context) return verdict.lifetime;
  const LifetimeClass lifetime = ask_evidence(trace, size);
  if (!starved_) verdict = {context, lifetime};
  return lifetime;
}

LifetimeClass ContextWorker::ask_evidence(const StackTrace& trace, size_t size) {
  const auto exact = evaluator_->evidence().find_exact(trace.codes, trace.depth, size);
  if (exact.kind != EvidenceKind::none) return exact.lifetime;
  const char* frames[kNamedFrames];
  int depth = 0;
  for (; depth < trace.depth && depth < kNamedFrames; ++depth) {
    starved_ = !code_->name_frame(trace.frames[depth], names_[depth], kNameRoom);
    if (starved_) return LifetimeClass::mixed;
    frames[depth] = names_[depth];
  }
  return evaluator_->answer(frames, depth, size).lifetime;
}

// A site with two different callers is a wrapper; the next level matters only then.
void ContextWorker::find_wrappers(const StackTrace& trace, SiteTable& sites) {
  for (int level = 0; level < SiteTable::kDepth && level + 1 < trace.depth; ++level) {
    const uintptr_t site = trace.frames[level];
    const uintptr_t caller = trace.frames[level + 1];
    if (sites.frame_bytes(site) != 0) continue;
    Caller& seen = callers_[mix(0, site) % kCallers];
    if (seen.site != site) {
      seen = {site, caller};
      return;
    }
    const uint32_t bytes = seen.first_caller != caller ? code_->frame_bytes(site) : 0;
    if (bytes == 0 || bytes >= SiteTable::kMostBytes) return;
    sites.add(site, bytes);
  }
}

}  // namespace llamalloc
