// SPDX-License-Identifier: Apache-2.0
#include "learning/learned_nodes.h"

#include <algorithm>

#include "base/sort.h"

namespace llamalloc {
namespace {

bool by_key(const LearnedNode& a, const LearnedNode& b) {
  return a.key < b.key;
}

bool by_worth(const LearnedNode& a, const LearnedNode& b) {
  if (a.unseen != b.unseen) return a.unseen < b.unseen;
  const uint32_t of_a = a.evidence.samples(), of_b = b.evidence.samples();
  return of_a != of_b ? of_a > of_b : a.key < b.key;
}

// The node of the key, which is at or behind *at; what lies before it is passed over.
const LearnedNode* find(LearnedNodes nodes, uint64_t key, size_t* at) {
  while (*at < nodes.size() && nodes[*at].key < key) ++*at;
  return *at < nodes.size() && nodes[*at].key == key ? &nodes[*at] : nullptr;
}

LearnedNode sum_of(const LearnedNode* in_base, const LearnedNode* taken, const LearnedNode* added) {
  LearnedNode sum = in_base != nullptr ? *in_base : *added;
  if (in_base == nullptr) return sum;
  if (added != nullptr && !sum.path_is_known()) {
    sum.parent = added->parent;
    sum.word = added->word;
  }
  if (taken != nullptr) sum.evidence.take_away(taken->evidence);
  if (added == nullptr) return sum;
  sum.evidence.add(added->evidence);
  sum.unseen = std::min(sum.unseen, added->unseen);
  sum.differs = sum.differs || added->differs;
  return sum;
}

void keep_best(size_t bound, NodeArray* nodes) {
  if (nodes->size() <= bound) return;
  LearnedNode* const first = nodes->data();
  sort_rows(first, nodes->size(), by_worth);
  sort_rows(first, bound, by_key);
  nodes->cut(bound);
}

// The one above it; null: it is not there, or not known. What a file says of levels may be wrong.
const LearnedNode* parent_of(const LearnedNode& part, LearnedNodes nodes) {
  if (part.level == 1 || !part.path_is_known()) return nullptr;
  const auto at =
      std::lower_bound(nodes.begin(), nodes.end(), part.parent,
                       [](const LearnedNode& node, uint64_t key) { return node.key < key; });
  const bool found = at != nodes.end() && at->key == part.parent;
  return found && at->level + 1 == part.level ? &*at : nullptr;
}

// Of all objects of the node; 0: several, or not known.
uint64_t size_of(const LearnedNode* node, LearnedNodes nodes) {
  while (node != nullptr && node->level > 2) node = parent_of(*node, nodes);
  return node != nullptr && node->level == 2 ? node->word : 0;
}

// The verdicts on a node and on its parts, as far as they were heard.
struct Parts {
  bool any = false;
  bool differ = false;  // or may: one is open
  LifetimeClass shortest = LifetimeClass::mixed, longest = LifetimeClass::le_10ms;

  void hear(const Verdict& verdict) {
    if (!verdict.decided) differ = true;
    shortest = std::min(shortest, verdict.lifetime);
    longest = std::max(longest, verdict.lifetime);
  }
  // What all of its objects say is older than what the parts say, where these die soon.
  bool agree_with(const LearnedNode& whole, LearnedNodes nodes) {
    const Verdict all = verdict_of(whole.evidence);
    const bool soon = dies_soon(all.lifetime) && dies_soon(longest);
    if (!soon) hear(all);
    if (differ || !all.decided) return false;
    return soon ? !any || !pays_to_tell_apart(shortest, longest, size_of(&whole, nodes))
                : any && group_of(shortest) == group_of(longest);
  }
};

void tell_parent(const LearnedNode& part, LearnedNodes nodes, Parts* parts) {
  const LearnedNode* const parent = parent_of(part, nodes);
  if (parent == nullptr || part.evidence.samples() == 0) return;
  Parts& told = parts[parent - nodes.data()];
  told.any = true;
  if (part.differs)
    told.differ = true;
  else
    told.hear(verdict_of(part.evidence));
}

}  // namespace

bool is_sorted(LearnedNodes nodes) {
  for (size_t i = 1; i < nodes.size(); ++i)
    if (nodes[i - 1].key >= nodes[i].key) return false;
  return true;
}

bool is_empty(const Evidence& evidence) {
  return evidence.samples() == 0 && evidence.elders == 0;
}

bool merge_nodes(LearnedNodes base, LearnedNodes take_away, LearnedNodes add, size_t bound,
                 PageSource& pages, NodeArray* out) {
  if (!out->make_room(base.size() + add.size(), pages)) return false;
  for (size_t b = 0, t = 0, a = 0; b < base.size() || a < add.size();) {
    const bool from_base = a == add.size() || (b < base.size() && base[b].key <= add[a].key);
    const uint64_t key = from_base ? base[b].key : add[a].key;
    const LearnedNode* in_base = find(base, key, &b);
    const LearnedNode* added = find(add, key, &a);
    const LearnedNode sum = sum_of(in_base, find(take_away, key, &t), added);
    if (!is_empty(sum.evidence)) out->append(sum);
    b += in_base != nullptr;
    a += added != nullptr;
  }
  keep_best(bound, out);
  return true;
}

void settle_differs(std::span<LearnedNode> nodes, PageSource& scratch) {
  MappedRows<Parts> parts;
  if (!parts.make_room(nodes.size(), scratch)) return;
  for (size_t i = 0; i < nodes.size(); ++i) parts.append({});
  int level = 0;
  for (const LearnedNode& node : nodes) level = std::max<int>(level, node.level);
  for (; level > 0; --level) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].level != level) continue;
      if (nodes[i].differs && parts.data()[i].agree_with(nodes[i], nodes)) nodes[i].differs = false;
      tell_parent(nodes[i], nodes, parts.data());
    }
  }
  parts.give_back();
}

void age_nodes(std::span<LearnedNode> nodes) {
  for (LearnedNode& node : nodes)
    if (node.unseen < UINT8_MAX) ++node.unseen;
}

}  // namespace llamalloc
