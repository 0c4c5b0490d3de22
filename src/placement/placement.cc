// SPDX-License-Identifier: Apache-2.0
#include "placement/placement.h"

namespace llamalloc {

static_assert(LifetimeClass::never < LifetimeClass::mixed);

void Placement::choose_by_site(CallSite site, int size_class, Choice* choice) const {
  const Prediction prior = cache_.find(PredictionCache::site_key(site, size_class));
  if (prior.found) {
    choice->lifetime = prior.lifetime;
    choice->group = prior.group;
  }
  choice->first = choice->miss = cache_.begin(choice->key, choice->lifetime);
}

void Placement::part_site(CallSite site, int size_class) const {
  cache_.publish(parted_key(site, size_class), LifetimeClass::mixed, kUnknownModule);
  cache_.decided.forget(PathCache::path_of(site.return_address), site_shape(size_class));
}

Placement::Choice Placement::settle(uint64_t key, LifetimeClass lifetime) {
  lifetime = unless_blind(lifetime);
  cache_.publish(key, lifetime, kUnknownModule);
  return choice_of(key, lifetime);
}

Placement::Choice Placement::settle_models_site(CallSite site, int size_class, uint64_t key,
                                                LifetimeClass lifetime) {
  const Choice choice = settle(key, lifetime);
  if (cache_.find(parted_key(site, size_class)).found) return choice;
  cache_.decided.publish(PathCache::path_of(site.return_address), site_shape(size_class),
                         place_of(choice.lifetime) | kFromModel);
  return choice_of(of_site(key), choice.lifetime);
}

Placement::Choice Placement::settle_learned_path(const CallPath& path, int size_class, uint64_t key,
                                                 LifetimeClass lifetime, bool explored) {
  Choice choice = settle(key, lifetime);
  cache_.decided.publish_path(path, site_shape(size_class), place_of(choice.lifetime),
                              explored ? PathCache::Kind::explored : PathCache::Kind::decided);
  if (!explored) choice.key = 0;
  return choice;
}

void Placement::publish(uint64_t key, uint64_t site_key, LifetimeClass lifetime, bool recheck,
                        Marks marks) {
  if (recheck) {
    counters_.add(Stat::predict_rechecks);
    const Prediction old = cache_.find(key);
    if (old.found && !old.pending && old.lifetime != lifetime) {
      counters_.add(Stat::predict_disagreements);
      lifetime = longer(old.lifetime, lifetime);
    }
  }
  lifetime = unless_blind(lifetime);
  cache_.publish(key, lifetime, marks.context);
  if (site_key != 0) cache_.publish(site_key, lifetime, marks.site);
}

bool Placement::observe(uint64_t key, LifetimeClass predicted, Nanos lifetime, bool again) {
  const Nanos bound = row(predicted).bound;
  if (bound.n == 0 || lifetime <= bound) return false;
  if (!again) counters_.add(Stat::outlivers);
  const LifetimeClass seen = class_of_lifetime(lifetime);
  if (group_of(seen) == group_of(predicted)) return true;
  const bool for_site = (key & PredictionCache::kUsed) == 0;
  key |= PredictionCache::kUsed;
  Prediction now = cache_.find(key);
  if (!now.found || now.pending) {
    if (!for_site) return true;
    now = {.lifetime = predicted, .marks = kUnknownModule};
  }
  // What was allocated before the class was corrected says nothing about the correction.
  if (group_of(longer(now.lifetime, seen)) == group_of(now.lifetime)) return true;
  const bool second = !again && group_of(now.lifetime) != group_of(predicted);
  // One object that stays does not make a permanent context of one whose objects die.
  const bool stays = group_of(seen) == PageGroup::permanent;
  counters_.add(Stat::demotions);
  cache_.publish(key, second || stays ? LifetimeClass::mixed : longer(now.lifetime, seen),
                 now.marks);
  return true;
}

}  // namespace llamalloc
