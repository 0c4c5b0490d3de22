// SPDX-License-Identifier: Apache-2.0
// Answers a miss of the prediction cache in the allocating thread: no lock, about 0.2 us where the
// site decides, about 1 us where the stack has to be walked. From then on the cache answers.
//
//   the tree of what is known (predict/context_tree.h)
//   the exact table of a model (predict/node_table.h)
//   its name table and site prior (predict/model_evidence.h), unless its network is to be asked:
//   that is the worker's, which says the same of all others
//
// Where the tree needs callers to tell contexts apart, the cache's key has to hold them too: each
// frame passed on the way becomes a site that the key looks past. A frame whose size varies
// (alloca) cannot be looked past: its contexts share a key by their stack height, as far as that
// differs.
#pragma once

#include <type_traits>

#include "base/size_bucket.h"
#include "placement/loaded_code.h"
#include "placement/lookup_time.h"
#include "placement/placement.h"
#include "predict/context_tree.h"
#include "predict/model_evidence.h"

namespace llamalloc {

class ContextResolver {
 public:
  // False: no memory.
  bool open(MetadataArena& arena);
  // Asks the tables of this model for what the tree does not know; names: null: not by name. False:
  // no memory.
  bool use(const ModelEvidence& model, KnownNames* names, MetadataArena& arena);
  bool is_open() const { return tree_.is_open() || model_ != nullptr; }
  ContextTree& tree() { return tree_; }

  struct Answer {
    bool known = false;
    bool by_site = false;  // callers do not matter
    bool learned = false;  // the tree says so, which the learner corrects
    bool whole = true;     // the cache's key holds all callers that do
    LifetimeClass lifetime = LifetimeClass::mixed;
    CallPath path;        // of what is learned and whole: the frames that decide
    bool varies = false;  // a frame turned out to vary: paths through it do not hold
  };
  // site: its return address, and code: the same as of StackTrace::codes. trace(StackTrace*) is
  // called at most once, if the stack is needed.
  template <typename Trace>
  Answer resolve(uintptr_t site, uint64_t code, size_t size, SiteTable& sites, Trace&& trace) {
    ContextPath path(code, size_bucket(size));
    Found node = find(path.key());
    if (node.found && node.deeper) {
      path.descend(0);
      node = find(path.key());
    }
    if (node.found && !node.deeper)
      return {true, true, node.learned, true, node.lifetime, {.frames = {site}}};
    if (!node.found && names_ == nullptr) return {};
    const auto walk = [](const void* how, StackTrace* out) {
      (*static_cast<const std::remove_reference_t<Trace>*>(how))(out);
    };
    return look_further(path, node, {site, size, walk, &trace}, sites);
  }

  // How many callers the fast path would ask for an allocation of this size and stack, by the tree
  // and the table. kCallersOfUnknown: they do not know it.
  int callers_asked(const StackTrace& trace, size_t size) const;

  // Drops what was noted of frames of which is_gone(return address) is true.
  template <typename F>
  void forget_if(F&& is_gone) {
    if (varying_ != nullptr) varying_->forget_if(is_gone);
  }

 private:
  struct Found : ContextTree::Node {
    bool learned = false;
  };
  struct Walk {
    uintptr_t site;
    size_t size;
    void (*walk)(const void* how, StackTrace* out);
    const void* how;
  };
  // Walked when a caller is asked for.
  class Stack final : public NamedStack {
   public:
    Stack(const Walk& walk, KnownNames* names) : walk_(walk), names_(names) {
      trace_.frames[0] = walk.site;
    }
    const StackTrace& walked();
    bool look(int frame, FrameName* out) override;
    // A frame that was asked for has a name that is not known now.
    bool is_lost() const { return is_lost_; }

   private:
    const Walk& walk_;
    KnownNames* const names_;
    CodeModule last_;
    bool is_lost_ = false;
    StackTrace trace_;  // depth 0: not walked
  };

  Found find(uint64_t key) const {
    const ContextTree::Node node = tree_.find(key);
    if (node.found || model_ == nullptr) return {node, node.found};
    return {model_->exact.find(key), false};
  }
  // From a node on: the node that decides, or none; *passed: the last frame asked for, -1 past the
  // end of the stack. on_frame(frame): before each caller, of the frame below it.
  template <typename F>
  Found follow(ContextPath path, Found node, const StackTrace& trace, int* passed,
               F&& on_frame) const {
    while (node.found && node.deeper) {
      *passed = path.next_frame();
      if (*passed >= trace.depth) return *passed = -1, Found{};
      if (*passed > 0) on_frame(*passed - 1);
      path.descend(trace.codes[*passed]);
      node = find(path.key());
    }
    return node;
  }
  Answer look_further(const ContextPath& path, const Found& node, const Walk& walk,
                      SiteTable& sites);
  Answer look_up_stack(ContextPath path, const StackTrace& trace, SiteTable& sites);
  static CallPath path_of(const StackTrace& trace, int callers);
  Answer ask_names(Stack& stack, size_t size, SiteTable& sites);
  // True: it turned out to vary.
  bool look_past(const StackTrace& trace, int frame, SiteTable& sites);
  bool looks_past_all(const StackTrace& trace, int frames, const SiteTable& sites) const;

  ContextTree tree_;
  const ModelEvidence* model_ = nullptr;
  KnownNames* names_ = nullptr;
  SiteTable* varying_ = nullptr;  // frames whose size is not always the same
};

}  // namespace llamalloc
