// SPDX-License-Identifier: Apache-2.0
// Decides where an allocation goes: context key -> class -> page group. Also corrects a class that
// was wrong.
//
//   hit      the cached class
//   miss     the prior of the site (the class last published for the same return address and size)
//            until the worker publishes the context's own class
//   outliver a sampled object that lived longer than its class allows: the context's class becomes
//            the observed one; if that crossed a page group, the context is no longer trusted and
//            becomes `mixed` when it happens a second time
//
// Re-evaluation keeps the longer of the old and the new class (papers/000 section 7).
#pragma once

#include "base/counters.h"
#include "predict/prediction_cache.h"

namespace llamalloc {

class Placement {
 public:
  constexpr Placement(PredictionCache& cache, Counters& counters)
      : cache_(cache), counters_(counters) {}

  struct Choice {
    uint64_t key = 0;  // 0: the site decides
    LifetimeClass lifetime = LifetimeClass::mixed;
    PageGroup group = PageGroup::unknown;
    bool known = false;  // the context has a prediction of its own
    bool miss = false;   // the caller hands the context to the worker
  };
  Choice choose(CallSite site, const StackBounds& own, int size_class) const {
    Choice choice;
    if (const uint64_t slot = cache_.find_site(site.return_address, size_class)) {
      choice.lifetime = PredictionCache::class_in(slot);
      choice.group = PredictionCache::group_in(slot);
      choice.known = true;
      return choice;
    }
    choice.key = cache_.context_key(site, own, size_class);
    const Prediction p = cache_.find(choice.key);
    if (__builtin_expect(p.found, 1)) {
      choice.lifetime = p.lifetime;
      choice.group = p.group;
      choice.known = !p.pending;
    } else {
      choose_by_site(site, size_class, &choice);
    }
    return choice;
  }

  // Of which modules the return addresses are that went into the keys (os/module_watch.h).
  struct Marks {
    uint8_t context = 0;
    uint8_t site = 0;
  };
  // The worker's verdict on a context. recheck: it had a class already.
  void publish(uint64_t key, uint64_t site_key, LifetimeClass lifetime, bool recheck,
               Marks marks = {0, 0});
  // A sampled object of the context lived `lifetime` or is still alive at that age; true if that
  // is longer than its predicted class.
  bool observe(uint64_t key, LifetimeClass predicted, Nanos lifetime);
  // A miss was answered at once, for its site or for its key alone.
  void settle_site(CallSite site, int size_class, LifetimeClass lifetime) {
    cache_.publish_site(site.return_address, size_class, lifetime);
  }
  void settle(uint64_t key, LifetimeClass lifetime) { cache_.publish(key, lifetime); }
  // The worker could not take the context in: it counts as unseen again.
  void abandon(uint64_t key) { cache_.forget(key); }

  PredictionCache& cache() { return cache_; }

 private:
  void choose_by_site(CallSite site, int size_class, Choice* choice) const;

  PredictionCache& cache_;
  Counters& counters_;
};

// The longer-lived of two classes; `mixed` beats all.
constexpr LifetimeClass longer(LifetimeClass a, LifetimeClass b) {
  return a < b ? b : a;
}

}  // namespace llamalloc
