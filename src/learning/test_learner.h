// SPDX-License-Identifier: Apache-2.0
// A learner beside samples that are born and die in contexts.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "base/size_bucket.h"
#include "learning/learner.h"
#include "os/fake/fake_pages.h"

namespace llamalloc {

inline constexpr size_t kSize = 100;  // bytes of an object

class LearnerTest : public testing::Test {
 protected:
  void SetUp() override {
    profiler_.start(1, Nanos{0});
    ASSERT_TRUE(learner_.open(arena_));
    ASSERT_TRUE(tree_.open(arena_));
  }

  // Innermost first; a frame's code is made of its number, as are its address and module.
  static StackTrace stack(const std::vector<uintptr_t>& frames) {
    StackTrace trace;
    for (const uintptr_t frame : frames) {
      trace.frames[trace.depth] = frame;
      trace.images[trace.depth] = 1;
      trace.codes[trace.depth++] = frame * 0x9E3779B97F4A7C15ull;
    }
    return trace;
  }
  // first: sampled for certain, as a context's first objects are.
  void* born(const std::vector<uintptr_t>& frames, size_t size = kSize, bool first = false) {
    void* p = reinterpret_cast<void*>(next_ += 64);
    profiler_.on_alloc(p, size, stack(frames), 0, LifetimeClass::mixed, now_, 1, 0, 0, first);
    return p;
  }
  void dies(void* p) { profiler_.on_free(p, now_, 1, 0); }
  void die_at_once(const std::vector<uintptr_t>& frames, int count, size_t size = kSize) {
    for (int i = 0; i < count; ++i) dies(born(frames, size));
  }
  void die_after(const std::vector<uintptr_t>& frames, int count, Nanos age, size_t size = kSize) {
    std::vector<void*> wave;
    for (int i = 0; i < count; ++i) wave.push_back(born(frames, size));
    pass(age);
    for (void* p : wave) dies(p);
  }
  void stay(const std::vector<uintptr_t>& frames, int count, size_t size = kSize) {
    for (int i = 0; i < count; ++i) born(frames, size);
  }
  // Two of so many objects die after half a minute, long after what f() does.
  template <typename F>
  void keep_some(const std::vector<uintptr_t>& frames, int count, F&& f) {
    std::vector<void*> kept;
    for (int i = 0; i < count; ++i) kept.push_back(born(frames));
    f();
    pass(Nanos::seconds(25));
    dies(kept[0]), dies(kept[1]);
    round();
  }
  void pass(Nanos time) { now_ = now_ + time; }
  bool round() { return learner_.round(profiler_, tree_, pages_, now_, Nanos{0}); }

  // Every second.
  void rounds(int count) {
    for (int i = 0; i < count; ++i) pass(Nanos::seconds(1)), round();
  }

  // What an allocation finds, and how deep it looked.
  struct Answer {
    bool known = false;
    LifetimeClass lifetime = LifetimeClass::mixed;
    int level = 0;
  };
  Answer ask(const std::vector<uintptr_t>& frames, size_t size = kSize) const {
    const StackTrace trace = stack(frames);
    ContextPath path(trace.codes[0], size_bucket(size));
    while (true) {
      const ContextTree::Node node = tree_.find(path.key());
      if (!node.found) return {};
      if (!node.deeper) return {true, node.lifetime, path.level()};
      const int frame = path.next_frame();
      if (frame >= trace.depth) return {};
      path.descend(trace.codes[frame]);
    }
  }

  static uint64_t site_key(uintptr_t site) {
    return ContextPath(stack({site}).codes[0], size_bucket(kSize)).key();
  }
  // The node of the call site.
  const Learner::Node& node_of(const std::vector<uintptr_t>& frames) {
    const uint64_t key = site_key(frames[0]);
    for (uint32_t i = 0; i < learner_.size(); ++i)
      if (learner_.node(i).key == key) return learner_.node(i);
    ADD_FAILURE() << "no node";
    return learner_.node(0);
  }

  FakePages pages_;
  MetadataArena arena_{pages_};
  Profiler profiler_{arena_, pages_};
  Learner learner_;
  ContextTree tree_;
  Nanos now_{0};
  uintptr_t next_ = 1 << 20;
};

}  // namespace llamalloc
