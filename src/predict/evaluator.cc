// SPDX-License-Identifier: Apache-2.0
#include "predict/evaluator.h"

namespace llamalloc {
namespace {

constexpr float kMajority = 0.5f;

int most_probable(const float (&probability)[kLifetimeClasses], PageGroup group, bool any_group) {
  int best = -1;
  for (int i = 0; i < kLifetimeClasses; ++i)
    if (any_group || kLifetimeClassRows[i].group == group)
      if (best < 0 || probability[i] > probability[best]) best = i;
  return best;
}

// False for sums that are not a number, too.
bool is_distribution(const float (&probability)[kLifetimeClasses]) {
  float sum = 0;
  for (float p : probability) sum += p;
  return sum > 0.999f && sum < 1.001f;
}

}  // namespace

Evaluator* Evaluator::load(const char* path, MetadataArena& arena, char* error, size_t room) {
  ErrorText text(error, room);
  auto* evaluator = arena.make<Evaluator>();
  if (evaluator == nullptr) return text.fail("model %s: out of memory", path), nullptr;
  ModelFile& file = evaluator->file_;
  if (!file.open(path, arena, text)) return nullptr;
  if (evaluator->network_.init(file.model().config, file.model().weights, arena)) return evaluator;
  file.close();
  text.fail("out of memory");
  return nullptr;
}

Evaluator::Result Evaluator::evaluate(const char* const* frames, int depth, size_t size) {
  tokens_.assign(frames, depth, size);
  uint32_t ids[kMaxFrameTokens];
  const int count = tokens_.count() - 1;  // the last one is the size
  for (int i = 0; i < count; ++i) ids[i] = file_.model().vocabulary.id(tokens_[i]);
  Result result;
  network_.run(ids, static_cast<uint32_t>(count), size_row(size), result.probability);
  if (!is_distribution(result.probability))
    for (int i = 0; i < kLifetimeClasses; ++i)
      result.probability[i] = i == static_cast<int>(LifetimeClass::mixed);
  result.best = static_cast<LifetimeClass>(most_probable(result.probability, {}, true));
  return result;
}

ModelEvidence::Answer Evaluator::answer(const char* const* frames, int depth, size_t size) {
  NamesAsText stack(frames, depth);
  const ModelEvidence::Answer named = evidence().find_named(stack, size);
  if (!evidence().asks_network(named)) return named;
  return {EvidenceKind::network, choose(evaluate(frames, depth, size)), named.nearness, 0};
}

LifetimeClass choose(const Evaluator::Result& result) {
  float sums[kPageGroups] = {};
  for (int i = 0; i < kLifetimeClasses; ++i)
    sums[static_cast<int>(kLifetimeClassRows[i].group)] += result.probability[i];
  int best = 0;
  for (int i = 1; i < kPageGroups; ++i)
    if (sums[i] > sums[best]) best = i;
  if (sums[best] < kMajority) return LifetimeClass::mixed;
  const auto group = static_cast<PageGroup>(best);
  return static_cast<LifetimeClass>(most_probable(result.probability, group, false));
}

}  // namespace llamalloc
