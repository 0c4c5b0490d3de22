// SPDX-License-Identifier: Apache-2.0
#include "learning/learner.h"

#include <algorithm>

#include "heap/heap.h"
#include "learning/learner_rows.h"
#include "learning/load_cycle.h"
#include "profile/scratch_pages.h"

namespace llamalloc {
namespace {

constexpr uint32_t kEnoughToSplit = kEnoughShort;
constexpr uint32_t kEnoughStaying = 8;  // samples
constexpr double kStillStaying = 0.9;
constexpr uint8_t kRoundsToShorten = 2;
constexpr int kMostPasses = 20;   // over what earlier runs know
constexpr int kFewRare = 4;       // contexts that only stay; of more, most seldom come
constexpr double kPins = 10;      // times its bytes: what an object that stays keeps of a page
constexpr uint64_t kNoFrame = 0;  // of a stack that ends where others go on: a part of its own

bool is_short(LifetimeClass lifetime) {
  return group_of(lifetime) == PageGroup::transient;
}

// By page group, bytes alive at the peak and now.
double parted(const double* at_peak, const double* now) {
  double died = 0, apart = 0;
  for (size_t group = 0; group < kPageGroups; ++group) {
    const double fell = at_peak[group] - now[group];
    if (fell <= 0) continue;
    died += fell;
    if (group != static_cast<size_t>(PageGroup::unknown))
      apart += std::max(0.0, fell - kPins * now[group]);
  }
  return died > 0 ? apart / died : 1;
}

Evidence sum_of(const Learner::Node& node) {
  Evidence sum = node.prior;
  sum.add(node.now);
  return sum;
}

// At the scale of what was halved more often. A part is rounded up or down by chance, so that what
// each of many contexts has little of is right in their sum.
void add(Learner::Node& node, Evidence part, int halved, uint32_t chance) {
  const int times = std::clamp(node.halved - halved, -31, 31);
  if (times < 0) node.now.halve(-times), node.halved = static_cast<uint8_t>(halved);
  if (times > 0) part.halve(times, chance >> (32 - times));
  if (node.now.add(part)) ++node.halved;
}

// What died since then, beside all that are alive.
Evidence since(const uint16_t (&past)[kTimedClasses], Evidence now) {
  for (int c = 0; c < kTimedClasses; ++c)
    now.deaths[c] = static_cast<uint16_t>(now.deaths[c] - std::min(now.deaths[c], past[c]));
  return now;
}

void begin_window(Learner::Node& node) {
  std::copy_n(node.now.deaths, kTimedClasses, node.past);
  node.past_halved = node.halved;
  node.window_begins = false;
}

}  // namespace

bool Learner::open(MetadataArena& arena) {
  index_ = arena.make_array<uint32_t>(kIndexSlots);
  if (index_ == nullptr) return false;
  nodes_ = arena.make_array<Node>(kMostNodes);
  agreed_ = arena.make_array<uint8_t>(kMostContexts);
  at_peak_ = arena.make_array<float>(kMostContexts);
  return nodes_ != nullptr && agreed_ != nullptr && at_peak_ != nullptr;
}

// Of the key, or the free one where it would be.
uint32_t Learner::slot_of(uint64_t key) const {
  uint32_t slot = static_cast<uint32_t>(key >> 8) & (index_slots_ - 1);
  while (index_[slot] != 0 && nodes_[index_[slot] - 1].key != key)
    slot = (slot + 1) & (index_slots_ - 1);
  return slot;
}

// So that few nodes take few pages.
void Learner::grow_index() {
  if (index_slots_ == kIndexSlots) return;
  std::fill_n(index_, index_slots_, 0);
  index_slots_ *= 2;
  for (uint32_t i = 0; i < count_; ++i) index_[slot_of(nodes_[i].key)] = i + 1;
}

// The node's number; kNone: full.
uint32_t Learner::intern(uint64_t key, int level) {
  if (count_ >= index_slots_ / 2) grow_index();
  const uint32_t slot = slot_of(key);
  if (index_[slot] != 0) return index_[slot] - 1;
  if (count_ == kMostNodes) return kNone;
  nodes_[count_] = {};
  nodes_[count_].key = key;
  nodes_[count_].level = static_cast<uint8_t>(level);
  nodes_[count_].shown = kNothing;
  nodes_[count_].parent = kNone;
  index_[slot] = ++count_;
  return count_ - 1;
}

bool Learner::take_in(uint64_t key, uint8_t level, bool deeper, const Evidence& evidence) {
  const uint32_t i = intern(key, level);
  if (i == kNone) return false;
  nodes_[i].prior.add(evidence);
  nodes_[i].deeper = nodes_[i].differed = nodes_[i].known_to_differ |= deeper;
  return true;
}

// What was not met is as it was, here and below: a forked child copies each page that it writes to.
void Learner::forget_counts() {
  for (uint32_t i = 0; i < count_; ++i) {
    Node& node = nodes_[i];
    if (!node.met) continue;
    node.now = {};
    node.contexts = 0;
    node.halved = 0;
    node.parts_decided = node.parts_open = node.split = false;
    node.parts_seem_short = node.parts_seem_long = false;
  }
}

// A node is not split where there is no room for all of its parts.
bool Learner::enter(Row& row, uint64_t word, int level) {
  const uint32_t i = intern(row.path.key(), level);
  if (i == kNone && level > 1) nodes_[row.node].split = false;
  if (i == kNone) return false;
  Node& node = nodes_[i];
  if (level > 1) node.parent = row.node;
  node.word = word;
  node.met = true;
  add(node, row.evidence, row.shift, row.chance);
  ++node.contexts;
  row.node = i;
  return true;
}

// Of a node whose parts agree, theirs; its own where that is longer, by what earlier runs saw.
Verdict Learner::verdict_on(const Node& node) const {
  const Evidence sum = sum_of(node);
  const Verdict found = verdict_of(sum);
  if (node.split && node.parts_decided && !node.deeper) {
    const bool longer = found.decided && found.lifetime > node.heard &&
                        group_of(found.lifetime) != group_of(node.heard);
    return longer ? found : Verdict{true, node.heard};
  }
  if (found.decided && dies_soon(found.lifetime) && !stays_.is_sure(sum))
    return {false, found.lifetime};
  if (found.decided || node.shown >= kDeeper || sum.samples() < kEnoughShort) return found;
  return {true, std::max(static_cast<LifetimeClass>(node.shown), longest_seen(sum))};
}

bool Learner::is_split(const Node& node) const {
  if (node.differed) return true;
  if (node.contexts <= 1) return false;
  if (sum_of(node).samples() < kEnoughToSplit) return false;
  const Verdict verdict = verdict_on(node);
  return !(verdict.decided && is_short(verdict.lifetime));
}

// Level by level, so that a node is whole before its parts are asked for.
void Learner::descend(const StackTable& stacks, Rows& rows) {
  for (uint32_t i = 0; i < rows.count; ++i) {
    Row& row = rows.row[i];
    row.node = kNone;
    row.done = row.evidence.samples() == 0 || stacks.depth(row.stack) == 0;
    if (row.done) continue;
    const uint64_t site = stacks.code(stacks.frame(row.stack, 0));
    row.path = ContextPath(site, row.bucket);
    row.done = !enter(row, site, 1);
  }
  for (int level = 1; level < kMostLevels; ++level) {
    for (uint32_t i = 0; i < count_; ++i)
      if (nodes_[i].met && nodes_[i].level == level) nodes_[i].split = is_split(nodes_[i]);
    bool any = false;
    for (uint32_t i = 0; i < rows.count; ++i) {
      Row& row = rows.row[i];
      if (row.done) continue;
      const auto frame = static_cast<uint32_t>(row.path.next_frame());
      row.done = !nodes_[row.node].split;
      if (row.done) continue;
      const bool ends = frame >= stacks.depth(row.stack);
      row.done = !ends && stacks.address(stacks.frame(row.stack, frame)) == 0;  // not known
      if (row.done) continue;
      const uint64_t caller = ends ? kNoFrame : stacks.code(stacks.frame(row.stack, frame));
      row.path.descend(caller);
      row.done = !enter(row, level == 1 ? row.bucket : caller, level + 1) || ends;
      any = any || !row.done;
    }
    if (!any) return;
  }
}

void Learner::count_staying(Rows& rows) const {
  for (uint32_t i = 0; i < rows.count; ++i) {
    const Row& row = rows.row[i];
    const uint8_t shown = row.node == kNone ? kNothing : nodes_[row.node].shown;
    if (shown < kDeeper && group_of(static_cast<LifetimeClass>(shown)) == PageGroup::permanent)
      rows.staying += row.alive;
  }
}

// Of all objects of a node that was met; 0: its call site has several.
uint64_t Learner::size_of(const Node& node) const {
  const Node* at = &node;
  while (at->level > 2 && at->parent != kNone) at = &nodes_[at->parent];
  return at->level == 2 ? at->word : 0;
}

void Learner::hear(Node& parent, const Node& part, const Verdict& verdict) {
  if (part.split && part.deeper) {
    parent.differed = parent.differed || part.differed;
    parent.deeper = true;
  } else if (!verdict.decided) {
    parent.parts_open = true;
    parent.parts_seem_short = parent.parts_seem_short || verdict.seems_short();
    parent.parts_seem_long = parent.parts_seem_long || lives_long(sum_of(part));
  } else if (!parent.parts_decided) {
    parent.heard = verdict.lifetime;
    parent.parts_decided = true;
  } else {
    if (pays_to_tell_apart(parent.heard, verdict.lifetime, size_of(parent)))
      parent.deeper = parent.differed = true;
    parent.heard = std::max(parent.heard, verdict.lifetime);
  }
}

// From the deepest level inward: where the parts of a node differ, or some are not known yet while
// others die young, or seem to die young while others stay or the other way round, it sends the
// asker deeper. Whether small objects that die soon do so at once or within seconds is not worth a
// look at the callers in each allocation.
void Learner::decide_parts() {
  for (uint32_t i = 0; i < count_; ++i)
    if (nodes_[i].met) nodes_[i].deeper = nodes_[i].differed = nodes_[i].known_to_differ;
  for (int level = kMostLevels; level > 0; --level) {
    for (uint32_t i = 0; i < count_; ++i) {
      Node& node = nodes_[i];
      if (!node.met || node.level != level) continue;
      const bool some_die = node.parts_decided ? dies_soon(node.heard) : node.parts_seem_short;
      const bool may_differ =
          is_short(node.heard) || (node.parts_seem_short && !dies_soon(node.heard));
      if (node.split && node.parts_seem_long && some_die) node.deeper = node.differed = true;
      if (node.split && node.parts_decided && node.parts_open && may_differ) node.deeper = true;
      if (node.parent != kNone) hear(nodes_[node.parent], node, verdict_on(node));
    }
  }
}

// Allocations that come to it ask no further.
bool Learner::answers(const Node& node) const {
  return !node.deeper && (node.parent == kNone || nodes_[node.parent].deeper);
}

// What contexts keep, as all of them show.
bool Learner::compare_all() {
  stays_.begin();
  for (uint32_t i = 0; i < count_; ++i)
    if (answers(nodes_[i])) stays_.add(sum_of(nodes_[i]));
  return stays_.end();
}

// Lengthens at once, shortens when two rounds agree. True: the tree's entry changes.
bool Learner::show(Node& node) {
  uint8_t next = kNothing;
  if (node.deeper) {
    next = kDeeper;
  } else if (const Verdict verdict = verdict_on(node); verdict.decided) {
    next = static_cast<uint8_t>(verdict.lifetime);
  }
  const bool shortens = node.shown < kDeeper && next < node.shown;
  node.shorter = shortens ? static_cast<uint8_t>(node.shorter + 1) : 0;
  if (next == node.shown || (shortens && node.shorter < kRoundsToShorten)) return false;
  node.shown = next;
  return true;
}

void Learner::show_all(ContextTree& tree) {
  for (int pass = 0; pass < kMostPasses && compare_all(); ++pass) {
  }
  for (uint32_t i = 0; i < count_; ++i) show(nodes_[i]);
  fill(tree);
}

void Learner::fill(ContextTree& tree) const {
  uint32_t shown = 0;
  for (uint32_t i = 0; i < count_; ++i) shown += nodes_[i].shown != kNothing;
  tree.begin(shown);
  for (uint32_t i = 0; i < count_; ++i) {
    const Node& node = nodes_[i];
    if (node.shown != kNothing)
      tree.add(node.key, node.shown == kDeeper, static_cast<LifetimeClass>(node.shown & ~kDeeper));
  }
  tree.publish();
}

uint32_t Learner::site_of(uint32_t node) const {
  while (nodes_[node].parent != kNone) node = nodes_[node].parent;
  return node;
}

// By call site, what its contexts keep. Null: no memory.
const Learner::Family* Learner::compare_parts(MetadataArena& scratch) const {
  auto* families = scratch.make_array<Family>(count_);
  if (families == nullptr) return nullptr;
  for (uint32_t i = 0; i < count_; ++i)
    if (nodes_[i].met && answers(nodes_[i]))
      stays_.add_to(&families[site_of(i)], sum_of(nodes_[i]));
  return families;
}

// `mixed` where it is not decided, or seems short-lived and others of its call site keep some of
// what they allocate.
LifetimeClass Learner::proven_class(uint32_t node, const Family* families) const {
  if (node == kNone || nodes_[node].shown >= kDeeper) return LifetimeClass::mixed;
  const auto shown = static_cast<LifetimeClass>(nodes_[node].shown);
  const bool proven =
      !dies_soon(shown) ||
      (families != nullptr && stays_.is_sure(sum_of(nodes_[node]), families[site_of(node)]));
  return proven ? shown : LifetimeClass::mixed;
}

// Too few samples to decide, and none of them has died, however old. Where there are many such
// contexts, most are of the kind that seldom comes, not of the kind that stays.
bool Learner::only_stays(uint32_t node) const {
  if (node == kNone || nodes_[node].shown != kNothing) return false;
  const Evidence seen = sum_of(nodes_[node]);
  return seen.elders > 0 && seen.died() == 0;
}

// What is alive, and known to live longer than what dies soon. Of a context that is not decided
// this is not known: its objects lie among those of unknown lifetimes, and what stays pins these
// pages, unless it is one of a few that do nothing but stay.
void Learner::sum_shares(const Rows& rows, const Family* families, Nanos now) {
  double allocated = 0, alive = 0, apart = 0;
  int rare = 0;
  double soon[kPageGroups] = {}, kept[kPageGroups] = {}, at_peak[kPageGroups] = {};
  for (uint32_t i = 0; i < rows.count; ++i) {
    const Row& row = rows.row[i];
    if (row.bucket > kRunMax) continue;
    const uint32_t ordinary = row.evidence.samples() - (row.has_firsts ? row.firsts.samples() : 0);
    const double samples = ordinary * static_cast<double>(uint64_t{1} << row.shift);
    allocated += samples;
    alive += row.live;
    const LifetimeClass lifetime = proven_class(row.node, families);
    const auto group = static_cast<size_t>(group_of(lifetime));
    if (dies_soon(lifetime)) soon[group] += samples;
    kept[group] += row.live;
    if (only_stays(row.node)) apart += row.live, ++rare;
    at_peak[group] += static_cast<double>(at_peak_[i]);
  }
  constexpr auto kTransient = static_cast<size_t>(PageGroup::transient);
  constexpr auto kBrief = static_cast<size_t>(PageGroup::brief);
  size_t group = soon[kTransient] >= soon[kBrief] ? kTransient : kBrief;
  double longer = rare <= kFewRare ? apart : 0;
  while (++group < kPageGroups) longer += kept[group];
  shares_.short_lived =
      allocated >= kEnoughShort ? (soon[kTransient] + soon[kBrief]) / allocated : 0;
  shares_.long_lived = alive > 0 ? longer / alive : 0;
  shares_.parted = parted(at_peak, kept);
  note_peak(rows, alive, now);
}

// The peak is forgotten as fast as the gate's is.
void Learner::note_peak(const Rows& rows, double alive, Nanos now) {
  const double age =
      static_cast<double>((now - peak_at_).n) / static_cast<double>(LoadCycle::kDecay.n);
  if (alive < shares_.peak * (1 - age)) return;
  shares_.peak = alive;
  peak_at_ = now;
  for (uint32_t i = 0; i < rows.count; ++i) {
    const Row& row = rows.row[i];
    at_peak_[i] = row.bucket > kRunMax ? 0 : static_cast<float>(row.live);
  }
}

// A program that ends frees what it stored, too, and may take its time. A load that drops leaves
// that, so its deaths count at once; where nothing is known to stay, only after it has not fallen
// for a while. Rounds may be further apart than that: the last one counts in any case.
void Learner::notice_fall(const Rows& rows, Nanos now) {
  const Level level{now, rows.live, rows.staying};
  Level most = level, last = level;
  for (Level& earlier : levels_) {
    const bool counts = &earlier == levels_ || now - earlier.at <= RecentDeaths::kWindow;
    if (counts && earlier.live > most.live) most = earlier;
    std::swap(earlier, last);
  }
  const bool stored =
      most.staying >= kEnoughStaying && rows.staying >= kStillStaying * most.staying;
  falling_ = rows.live < RecentDeaths::kFallen * most.live && !stored;
}

void Learner::begin_anew() {
  for (uint32_t i = 0; i < count_; ++i) {
    Node& node = nodes_[i];
    if (!node.met) continue;
    node.prior.add(node.now);
    node.now = node.steady = node.saved = {};
    node.fades = 0;  // those are the parent's to write
    node.halved = node.agreed = 0;
    node.known_to_differ |= node.differed;
    begin_window(node);
  }
  std::fill_n(at_peak_, contexts_, 0.0F);
  shares_ = {};
  std::fill_n(levels_, kLevels, Level());
}

// Several windows in a row, as a load comes in waves. *agreed: those so far.
bool agree(bool shorter, uint8_t* agreed) {
  *agreed = shorter ? static_cast<uint8_t>(std::min(*agreed + 1, 255)) : 0;
  return *agreed >= Learner::kWindowsToFade;
}

// Contexts of which little died in this window are left for the next one.
void Learner::fade(LifetimeTable& table, const Rows& rows, Nanos now, Nanos began) {
  if (now - window_began_ < kWindow) return;
  window_began_ = now;
  for (uint32_t i = 0; i < count_; ++i)
    if (nodes_[i].met) fade_prior(nodes_[i], now - began);
  for (uint32_t i = 0; i < rows.count; ++i) {
    const Row& row = rows.row[i];
    const Evidence recent = since(row.earlier.deaths, row.evidence);
    if (row.has_firsts || recent.died() < kEnoughToFade) continue;
    const bool halve = agree(lives_shorter(row.earlier, recent), &agreed_[i]);
    for (uint32_t n = halve ? row.node : kNone; n != kNone; n = nodes_[n].parent)
      nodes_[n].window_begins = true;
    LockGuard guard(table.lock());
    table.fade(i, halve);
  }
}

// In a run that is younger than what lived before, nothing can live as long: that proves nothing.
void Learner::fade_prior(Node& node, Nanos run) {
  const bool same_scale = node.halved == node.past_halved;
  const Evidence recent = since(node.past, node.now);
  if (same_scale && recent.died() < kEnoughToFade) return;
  begin_window(node);
  if (!same_scale || class_of_lifetime(run) < longest_seen(node.prior)) return;
  if (!agree(lives_shorter(node.prior, recent), &node.agreed)) return;
  node.prior.halve();
  if (node.fades < UINT8_MAX) ++node.fades;
}

bool Learner::round(Profiler& profiler, ContextTree& tree, PageSource& pages, Nanos now,
                    Nanos began) {
  ScratchPages mappings(pages);
  MetadataArena scratch(mappings);
  Rows rows;
  if (!rows.gather(profiler, kMostContexts, scratch, now, began)) return false;
  contexts_ = rows.count;
  forget_counts();
  descend(profiler.stacks(), rows);
  count_staying(rows);
  decide_parts();
  compare_all();
  notice_fall(rows, now);
  bool changed = false;
  for (uint32_t i = 0; i < count_; ++i) {
    Node& node = nodes_[i];
    if (!node.met) continue;
    if (!falling_) node.steady = node.now;
    if (node.window_begins) begin_window(node);
    if (show(node)) changed = true;
  }
  if (changed) fill(tree);
  sum_shares(rows, compare_parts(scratch), now);
  fade(profiler.contexts(), rows, now, began);
  return changed;
}

bool Learner::is_consistent() const {
  uint32_t indexed = 0;
  for (uint32_t slot = 0; slot < index_slots_; ++slot) indexed += index_[slot] != 0;
  for (uint32_t i = 0; i < count_; ++i)
    if (nodes_[i].parent != kNone && nodes_[nodes_[i].parent].level + 1 != nodes_[i].level)
      return false;
  return indexed == count_;
}

}  // namespace llamalloc
