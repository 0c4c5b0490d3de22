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
