// SPDX-License-Identifier: Apache-2.0
// A set of objects ordered by address, lowest first: an intrusive pairing heap (Fredman et al.
// 1986). min is O(1), insert and remove O(log n) amortised. T has a field `AddressLinks<T> links`
// and a function `address()`. The owner's lock guards the whole heap.
//
// No single call is to take long, since malloc waits for it. So the children of the root stay few:
// a new one is melded with those before it as a binary counter carries, and where a member is
// removed, what was below it takes its place.
//
//        root        children form a list through `next`; `previous` is the left sibling, or the
//       /            parent for the first child; null at the root and outside of a heap.
//      c1 - c2 - c3
#pragma once

#include <cstdint>

#include "base/check.h"

namespace llamalloc {

template <typename T>
struct AddressLinks {
  T* child = nullptr;
  T* next = nullptr;
  T* previous = nullptr;
};

template <typename T>
class AddressHeap {
 public:
  T* min() const { return root_; }
  bool empty() const { return root_ == nullptr; }

  void insert(T* node) {
    node->links = {};
    if (root_ == nullptr || node->address() < root_->address()) {
      if (root_ != nullptr) add_child(node, root_);
      root_ = node;
      return;
    }
    T*& first = root_->links.child;
    for (uint32_t n = inserts_++; (n & 1) != 0 && first != nullptr; n >>= 1) {
      T* before = first;
      first = before->links.next;
      node = meld(node, before);
    }
    add_child(root_, node);
  }

  void remove(T* node) {
    if (node == root_) {
      root_ = merge_children(node);
      if (root_) root_->links.previous = root_->links.next = nullptr;
    } else if (T* rest = merge_children(node)) {
      replace(node, rest);
    } else {
      unlink(node);
    }
    node->links = {};
  }

  // Visits every member, in no order; f must not change the heap.
  template <typename F>
  void for_each(F&& f) const {
    for (T* node = root_; node != nullptr; node = successor(node)) f(node);
  }

  bool is_consistent() const {
    bool good = true;
    for_each([&](T* node) {
      for (T* c = node->links.child; c; c = c->links.next) good &= node->address() < c->address();
    });
    return good;
  }

 private:
  // The member after node in depth-first order.
  static T* successor(T* node) {
    if (node->links.child) return node->links.child;
    while (node && node->links.next == nullptr) node = parent(node);
    return node ? node->links.next : nullptr;
  }
  static T* parent(T* node) {
    while (node->links.previous && node->links.previous->links.child != node)
      node = node->links.previous;
    return node->links.previous;
  }

  // a and b are roots; returns the lower one with the other as its first child.
  static T* meld(T* a, T* b) {
    if (b->address() < a->address()) {
      T* t = a;
      a = b;
      b = t;
    }
    add_child(a, b);
    a->links.next = a->links.previous = nullptr;
    return a;
  }

  static void add_child(T* parent, T* child) {
    T* next = parent->links.child;
    child->links.next = next;
    if (next) next->links.previous = child;
    child->links.previous = parent;
    parent->links.child = child;
  }

  static void unlink(T* node) {
    T* previous = node->links.previous;
    if (previous->links.child == node)
      previous->links.child = node->links.next;
    else
      previous->links.next = node->links.next;
    if (node->links.next) node->links.next->links.previous = previous;
  }

  // `rest` is a root, of what was below the node.
  static void replace(T* node, T* rest) {
    rest->links.next = node->links.next;
    rest->links.previous = node->links.previous;
    if (rest->links.next) rest->links.next->links.previous = rest;
    T*& in_front = rest->links.previous->links.child == node ? rest->links.previous->links.child
                                                             : rest->links.previous->links.next;
    in_front = rest;
  }

  // Two passes: meld neighbours left to right, then the pairs right to left.
  static T* merge_children(T* node) {
    T* pairs = nullptr;
    for (T* a = node->links.child; a != nullptr;) {
      T* b = a->links.next;
      T* rest = b ? b->links.next : nullptr;
      T* pair = b ? meld(a, b) : a;
      pair->links.next = pairs;
      pairs = pair;
      a = rest;
    }
    T* root = nullptr;
    while (pairs != nullptr) {
      T* rest = pairs->links.next;
      pairs->links.next = pairs->links.previous = nullptr;
      root = root ? meld(root, pairs) : pairs;
      pairs = rest;
    }
    return root;
  }

  T* root_ = nullptr;
  uint32_t inserts_ = 0;  // below a root
};

}  // namespace llamalloc
