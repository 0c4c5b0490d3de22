// SPDX-License-Identifier: Apache-2.0
#include "predict/model_evidence.h"

#include <cstring>

#include "base/size_bucket.h"
#include "predict/frame_name_key.h"

namespace llamalloc {
namespace {

bool is_trusted(float share) {
  return share >= ModelEvidence::kTrusted;
}

bool names_program(const char* list, const char* program) {
  const size_t length = strlen(program);
  for (const char* at = list; at != nullptr; at = strchr(at, ',')) {
    at += *at == ',';
    if (strncmp(at, program, length) == 0 && (at[length] == ',' || at[length] == '\0')) return true;
  }
  return false;
}

}  // namespace

ModelEvidence::Answer ModelEvidence::find_exact(const uint64_t* codes, int depth,
                                                size_t size) const {
  if (depth == 0 || exact.size() == 0) return {};
  ContextPath path(codes[0], size_bucket(size));
  ContextTree::Node node = exact.find(path.key());
  while (node.found && node.deeper) {
    const int next = path.next_frame();
    if (next >= depth) return {};
    path.descend(codes[next]);
    node = exact.find(path.key());
  }
  if (!node.found) return {};
  return {EvidenceKind::exact, node.lifetime, Nearness::site_and_caller};
}

ModelEvidence::Answer ModelEvidence::find_named(const char* const* frames, int depth,
                                                size_t size) const {
  Answer answer;
  const auto use_prior = [&](size_t i, Nearness nearness) {
    answer.nearness = nearness;
    if (!is_trusted(prior_trust[static_cast<int>(nearness)])) return;
    answer.kind = EvidenceKind::prior;
    answer.lifetime = static_cast<LifetimeClass>(priors[2 * i]);
  };
  if (depth == 0) return answer;
  const uint64_t bucket = size_bucket(size);
  ContextPath path(frame_name_key(frames[0]), bucket);
  size_t known = names.index_of(path.key());
  int level = 1;
  for (size_t i = known; i != NodeTable::kNone; i = names.index_of(path.key())) {
    known = i;
    level = path.level();
    if (names.answer(i) < kLifetimeClasses)
      return {EvidenceKind::name, static_cast<LifetimeClass>(names.answer(i)),
              level > 2 ? Nearness::site_and_caller : Nearness::site};
    const int next = path.next_frame();
    if (names.answer(i) != NodeTable::kDeeper || next >= depth) break;
    path.descend(next == 0 ? 0 : frame_name_key(frames[next]));
  }
  if (known != NodeTable::kNone) {
    use_prior(known, level > 2 ? Nearness::site_and_caller : Nearness::site);
    return answer;
  }
  for (int i = 0; i < depth && i < kSearchedCallers; ++i) {
    ContextPath caller(caller_name_key(frames[i]), bucket);
    const size_t any = names.index_of(caller.key());
    if (any == NodeTable::kNone) continue;
    caller.descend(0);
    const size_t sized = names.index_of(caller.key());
    use_prior(sized == NodeTable::kNone ? any : sized, Nearness::caller);
    break;
  }
  return answer;
}

bool ModelEvidence::asks_network(const Answer& named) const {
  if (named.kind == EvidenceKind::name) return false;
  const auto nearness = static_cast<int>(named.nearness);
  return is_trusted(network_trust[nearness]) && network_trust[nearness] > prior_trust[nearness];
}

ModelEvidence::Origin ModelEvidence::origin(const char* program, uint64_t build) const {
  for (size_t i = 0; i < build_count; ++i)
    if (build != 0 && builds[i] == build) return Origin::this_build;
  if (programs[0] == '\0') return Origin::this_build;
  return names_program(programs, program) ? Origin::other_build : Origin::other_program;
}

}  // namespace llamalloc
