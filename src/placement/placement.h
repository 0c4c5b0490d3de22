// SPDX-License-Identifier: Apache-2.0
// Decides where an allocation goes: context key -> class -> page group. Also corrects a class that
// was wrong.
//
//   hit      the cached class
//   miss     the prior of the site (the class last published for the same return address and size)
//            until the worker publishes the context's own class
//   outliver a sampled object that lived longer than its class allows, and belongs to another page
//            group: the context's class becomes the observed one. If another one that was
//            allocated before outlives that, too, or one stays, the context is no longer trusted
//            and becomes `mixed`
//
// A recheck keeps the longer of the old and the new class (ASPLOS 2020, section 7).
//
// Where the call site decides, or a few of its callers do, the answer is in the path cache. What
// was learned there is corrected by the learner. A model's answer holds until an outlier
// contradicts it: then the outlier's context has a class of its own, and the site is parted, so
// that each of its contexts is asked for.
#pragma once

#include <atomic>

#include "base/call_site.h"
#include "base/counters.h"
#include "heap/bin_number.h"
#include "heap/magazines.h"
#include "predict/prediction_cache.h"

namespace llamalloc {

// Of the path cache. A shape: the byte offset of the size class' magazine in a group, or beyond
// those, for what has none. A place: the offset of the group among all magazines, with the
// class in the low bits, and whether a model says so.
constexpr size_t site_shape(int size_class) {
  return magazine_offset_of(size_class);
}
inline constexpr uint16_t kFromModel = 16;
constexpr uint16_t place_of(LifetimeClass lifetime) {
  const int first = bin_of(group_of(lifetime), 0, false);
  return static_cast<uint16_t>(magazine_offset_of(first) | static_cast<size_t>(lifetime));
}
constexpr size_t group_offset_in(uint16_t place) {
  return place & ~(sizeof(Magazine) - 1);
}
constexpr LifetimeClass class_in(uint16_t place) {
  return static_cast<LifetimeClass>(place & (kFromModel - 1));
}
static_assert(kLifetimeClasses <= kFromModel && kFromModel < sizeof(Magazine));
static_assert(magazine_offset_of(kLocalBins) <= UINT16_MAX);

// What leaves the pages of unknown objects. nothing: contexts are only looked at (LearningSteps);
// what_stays: Gate::is_late.
enum class Parts : uint8_t { nothing, what_stays, all };

class Placement {
 public:
  constexpr Placement(PredictionCache& cache, Counters& counters)
      : cache_(cache), counters_(counters) {}

  struct Choice {
    // 0: the site decides. Without PredictionCache::kUsed: it does, as a model says.
    uint64_t key = 0;
    LifetimeClass lifetime = LifetimeClass::mixed;
    PageGroup group = PageGroup::unknown;
    bool known = false;  // the context has a prediction
    bool miss = false;   // the caller hands the context to the worker
    bool slow = false;   // it was not cached, but is known
    bool first = false;  // its object may be sampled as the context's first: it is a miss, or
                         // was answered by what contexts have in common

    bool is_of_context() const { return (key & PredictionCache::kUsed) != 0; }
  };
  Choice choose(CallSite site, const StackBounds& own, int size_class) const {
    uint16_t place;
    const bool decided = find_path(site, own, size_class, &place) == PathCache::Kind::decided;
    if (decided && (place & kFromModel) == 0) return choice_of(0, class_in(place));
    Choice choice;
    choice.key = cache_.context_key(site, own, size_class);
    const Prediction p = cache_.find(choice.key);
    if (decided) {
      if (!p.found || p.pending || p.lifetime == class_in(place))
        return choice_of(of_site(choice.key), class_in(place));
      part_site(site, size_class);
    }
    if (__builtin_expect(p.found, 1)) {
      choice.lifetime = p.lifetime;
      choice.group = p.group;
      choice.known = !p.pending;
    } else {
      choose_by_site(site, size_class, &choice);
    }
    return choice;
  }

  // The same without a change to anything, as the fast path looks: whether it is known.
  bool look(CallSite site, const StackBounds& own, int size_class) const {
    uint16_t place;
    const PathCache::Kind kind = find_path(site, own, size_class, &place);
    return kind == PathCache::Kind::decided || kind == PathCache::Kind::explored ||
           cache_.find(cache_.context_key(site, own, size_class)).found;
  }

  // The modules of the return addresses in the keys (placement/loaded_code.h).
  struct Marks {
    uint8_t context = 0;
    uint8_t site = 0;
  };
  // Publishes the class that the worker computed. recheck: the context had a class already.
  void publish(uint64_t key, uint64_t site_key, LifetimeClass lifetime, bool recheck,
               Marks marks = {0, 0});
  // Learns that a sampled object of the context lived for `lifetime`, or is still alive at that
  // age. True if that is longer than its predicted class allows.
  // again: the object was reported before, at a lower age; one object alone costs no trust.
  bool observe(uint64_t key, LifetimeClass predicted, Nanos lifetime, bool again = false);
  // A miss was answered at once. They return the choice for it from then on. The modules of the key
  // are not known, so that it goes with any that is unloaded.
  Choice settle(uint64_t key, LifetimeClass lifetime);
  // Of a path that decides. The key keeps the answer, too: where the path cache has no slot for a
  // path, it answers. explored: the slow path still asks for each context, and what observe
  // corrects of one holds for an eighth of its allocations.
  Choice settle_learned_path(const CallPath& path, int size_class, uint64_t key,
                             LifetimeClass lifetime, bool explored = false);
  Choice settle_models_site(CallSite site, int size_class, uint64_t key, LifetimeClass lifetime);
  // From now on what is not parted is published as `mixed`.
  void part(Parts parts) { parts_.store(parts, std::memory_order_relaxed); }
  // The context was dropped before its evaluation: it counts as new again.
  void abandon(uint64_t key) { cache_.forget(key); }

  PredictionCache& cache() { return cache_; }

 private:
  static uint64_t of_site(uint64_t key) { return key & ~PredictionCache::kUsed; }
  static uint64_t parted_key(CallSite site, int size_class) {
    return mix(0x7061727465640000, PredictionCache::site_key(site, size_class)) |
           PredictionCache::kUsed;
  }
  static Choice choice_of(uint64_t key, LifetimeClass lifetime) {
    return {.key = key, .lifetime = lifetime, .group = group_of(lifetime), .known = true};
  }

  PathCache::Kind find_path(CallSite site, const StackBounds& own, int size_class,
                            uint16_t* place) const {
    return cache_.decided.find_past(PathCache::path_of(site.return_address), site.stack_pointer,
                                    own.readable_limit(site.stack_pointer), site_shape(size_class),
                                    place);
  }
  void choose_by_site(CallSite site, int size_class, Choice* choice) const;
  void part_site(CallSite site, int size_class) const;
  LifetimeClass unless_blind(LifetimeClass lifetime) const {
    const Parts parts = parts_.load(std::memory_order_relaxed);
    const bool parted = parts == Parts::all ||
                        (parts == Parts::what_stays && group_of(lifetime) == PageGroup::permanent);
    return parted ? lifetime : LifetimeClass::mixed;
  }

  PredictionCache& cache_;
  Counters& counters_;
  std::atomic<Parts> parts_{Parts::all};
};

// The longer-lived of two classes; `mixed` beats all.
constexpr LifetimeClass longer(LifetimeClass a, LifetimeClass b) {
  return a < b ? b : a;
}

}  // namespace llamalloc
