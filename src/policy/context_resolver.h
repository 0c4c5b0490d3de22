// SPDX-License-Identifier: Apache-2.0
// Answers a miss of the prediction cache from the tree of what is known (predict/context_tree.h),
// and from the exact table of a model (predict/node_table.h), in the allocating thread: no lock,
// about 0.2 us where the site decides, about 1 us where the stack has to be walked. From then on
// the cache answers.
//
// Where the tree needs callers to tell contexts apart, the cache's key has to hold them too: each
// frame passed on the way becomes a site that the key looks past. A frame whose size varies
// (alloca) cannot be looked past: its contexts share a key by their stack height, as far as that
// differs.
#pragma once

#include "base/size_bucket.h"
#include "policy/placement.h"
#include "predict/context_tree.h"
#include "predict/node_table.h"

namespace llamalloc {

class ContextResolver {
 public:
  // False: no memory.
  bool open(MetadataArena& arena);
  // Asks this table for what the tree does not know. False: no memory.
  bool use(const NodeTable& exact, MetadataArena& arena);
  bool is_open() const { return tree_.is_open() || exact_ != nullptr; }
  ContextTree& tree() { return tree_; }

  struct Answer {
    bool known = false;
    bool by_site = false;  // callers do not matter
    bool learned = false;  // the tree says so, which the learner corrects
    bool whole = true;     // the cache's key holds all callers that do
    LifetimeClass lifetime = LifetimeClass::mixed;
  };
  // code: of the site's return address. trace(StackTrace*) is called at most once, if the stack is
  // needed.
  template <typename Trace>
  Answer resolve(uint64_t code, size_t size, SiteTable& sites, Trace&& trace) {
    ContextPath path(code, size_bucket(size));
    Found node = find(path.key());
    if (node.found && node.deeper) {
      path.descend(0);
      node = find(path.key());
    }
    if (!node.found) return {};
    if (!node.deeper) return {true, true, node.learned, true, node.lifetime};
    StackTrace stack;
    trace(&stack);
    return look_up_stack(path, stack, sites);
  }

  // Drops what was noted of frames of which is_gone(return address) is true.
  template <typename F>
  void forget_if(F&& is_gone) {
    if (varying_ != nullptr) varying_->forget_if(is_gone);
  }

 private:
  struct Found : ContextTree::Node {
    bool learned = false;
  };
  Found find(uint64_t key) const {
    const ContextTree::Node node = tree_.find(key);
    if (node.found || exact_ == nullptr) return {node, node.found};
    return {exact_->find(key), false};
  }
  Answer look_up_stack(ContextPath path, const StackTrace& trace, SiteTable& sites);
  void look_past(const StackTrace& trace, int frame, SiteTable& sites);

  ContextTree tree_;
  const NodeTable* exact_ = nullptr;
  SiteTable* varying_ = nullptr;  // frames whose size is not always the same
};

}  // namespace llamalloc
