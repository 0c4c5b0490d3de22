// SPDX-License-Identifier: Apache-2.0
#include "pages/address_heap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace llamalloc {
namespace {

struct Node {
  AddressLinks<Node> links;
  const char* address() const { return reinterpret_cast<const char*>(this); }
};

// Against std::set: the same members, the same minimum, whatever the order of operations.
TEST(AddressHeap, AgreesWithASortedSet) {
  std::vector<Node> nodes(300);
  std::set<Node*> oracle;
  AddressHeap<Node> heap;
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    Node* node = &nodes[random() % nodes.size()];
    if (oracle.count(node)) {
      heap.remove(node);
      oracle.erase(node);
    } else {
      heap.insert(node);
      oracle.insert(node);
    }
    ASSERT_EQ(heap.min(), oracle.empty() ? nullptr : *oracle.begin());
    if (step % 100 != 0) continue;
    std::set<Node*> seen;
    heap.for_each([&](Node* n) { seen.insert(n); });
    ASSERT_EQ(seen, oracle);
    ASSERT_TRUE(heap.is_consistent());
  }
}

struct Counted {
  AddressLinks<Counted> links;
  static inline size_t looks = 0;
  const char* address() const {
    ++looks;
    return reinterpret_cast<const char*>(this);
  }
};

class CountedHeapTest : public testing::Test {
 protected:
  static constexpr size_t kMany = 100'000;
  // One look at a member or two for each that a call touches.
  template <typename F>
  void expect_few(const char* what, F&& f) {
    Counted::looks = 0;
    f();
    ASSERT_LT(Counted::looks, 1000u) << what;
  }
  void insert(size_t i) {
    expect_few("insert", [&] { heap_.insert(&nodes_[i]); });
  }
  void remove(size_t i) {
    expect_few("remove", [&] { heap_.remove(&nodes_[i]); });
  }

  std::vector<Counted> nodes_{kMany};
  AddressHeap<Counted> heap_;
};

TEST_F(CountedHeapTest, TheLowestOfManyIsRemovedAtOnce) {
  for (size_t i = 0; i < kMany; ++i) insert(i);
  for (size_t i = 0; i < kMany; ++i) remove(i);
  EXPECT_TRUE(heap_.empty());
}

TEST_F(CountedHeapTest, AlsoAfterManyOthersWere) {
  for (size_t i = 0; i < kMany; ++i) insert(i * 7919 % kMany);
  for (size_t i = 0; i < kMany; ++i)
    if (i % 4 != 0) remove(i * 7927 % kMany);
  remove(static_cast<size_t>(heap_.min() - nodes_.data()));
  EXPECT_TRUE(heap_.is_consistent());
}

// Spans with free slots: the lowest is used up while others are listed.
TEST_F(CountedHeapTest, AndWhileTheLowestComesAndGoes) {
  insert(kMany / 2);
  for (size_t i = 1; i < kMany / 2; ++i) {
    insert(kMany / 2 - i);
    remove(kMany / 2 - i);
    insert(kMany / 2 + i);
  }
  remove(kMany / 2);
  EXPECT_TRUE(heap_.is_consistent());
}

TEST(AddressHeap, DrainsInOrder) {
  std::vector<Node> nodes(100);
  AddressHeap<Node> heap;
  for (size_t i = 0; i < nodes.size(); ++i) heap.insert(&nodes[i * 37 % nodes.size()]);
  for (Node& node : nodes) {
    ASSERT_EQ(heap.min(), &node);
    heap.remove(&node);
  }
  EXPECT_TRUE(heap.empty());
}

}  // namespace
}  // namespace llamalloc
