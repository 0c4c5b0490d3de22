// SPDX-License-Identifier: Apache-2.0
#include "predict/model_evidence.h"

#include <cstring>

#include "base/size_bucket.h"

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
  return {EvidenceKind::exact, node.lifetime, Nearness::site_and_caller, 0};
}

ModelEvidence::Answer ModelEvidence::find_named(NamedStack& stack, size_t size) const {
  Answer answer;
  const auto use_prior = [&](size_t i, Nearness nearness) {
    answer.nearness = nearness;
    if (!is_trusted(prior_trust[static_cast<int>(nearness)])) return;
    answer.kind = EvidenceKind::prior;
    answer.lifetime = static_cast<LifetimeClass>(priors[2 * i]);
  };
  FrameName name;
  if (!stack.look(0, &name)) return answer;
  const uint64_t bucket = size_bucket(size);
  ContextPath path(name.function, bucket);
  size_t known = NodeTable::kNone;
  Nearness nearness = Nearness::site;
  for (size_t i; (i = names.index_of(path.key())) != NodeTable::kNone;) {
    known = i;
    if (path.level() > 2) nearness = Nearness::site_and_caller;
    if (names.answer(i) < kLifetimeClasses)
      return {EvidenceKind::name, static_cast<LifetimeClass>(names.answer(i)), nearness,
              answer.callers};
    if (names.answer(i) != NodeTable::kDeeper) break;
    const int next = path.next_frame();
    if (next > 0) {
      if (!stack.look(next, &name)) break;
      answer.callers = next;
    }
    path.descend(name.function);
  }
  if (known != NodeTable::kNone) {
    use_prior(known, nearness);
    return answer;
  }
  for (int i = 0; i < kSearchedCallers && stack.look(i, &name); ++i) {
    ContextPath caller(name.caller, bucket);
    const size_t any = names.index_of(caller.key());
    if (any == NodeTable::kNone) continue;
    caller.descend(0);
    const size_t sized = names.index_of(caller.key());
    answer.callers = i;
    use_prior(sized == NodeTable::kNone ? any : sized, Nearness::caller);
    break;
  }
  return answer;
}

bool ModelEvidence::knows(const FrameName& name) const {
  const auto is_node = [this](uint64_t number) {
    return names.index_of(ContextPath(number, 0).key()) != NodeTable::kNone;
  };
  return is_node(name.caller) || is_node(name.function);
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
