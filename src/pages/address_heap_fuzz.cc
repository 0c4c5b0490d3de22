// SPDX-License-Identifier: Apache-2.0
// AddressHeap against std::set: the same members and the same minimum after every step.
//   each byte: one of 128 nodes goes in, or out if it is in; 128 and more: the lowest goes out
#include "pages/address_heap.h"

#include <set>

#include "base/fuzz_input.h"

namespace llamalloc {
namespace {

struct Node {
  AddressLinks<Node> links;
  const char* address() const { return reinterpret_cast<const char*>(this); }
};

void compare(const AddressHeap<Node>& heap, const std::set<Node*>& oracle) {
  CHECK(heap.min() == (oracle.empty() ? nullptr : *oracle.begin()));
  CHECK(heap.is_consistent());
  std::set<Node*> seen;
  heap.for_each([&](Node* node) { CHECK(seen.insert(node).second); });
  CHECK(seen == oracle);
}

void run(FuzzInput input) {
  static Node nodes[128];
  AddressHeap<Node> heap;
  std::set<Node*> oracle;
  while (input.more()) {
    const uint8_t step = input.byte();
    Node* node = step < 128 ? &nodes[step] : heap.min();
    if (node == nullptr) continue;
    if (oracle.erase(node) != 0) {
      heap.remove(node);
    } else {
      heap.insert(node);
      oracle.insert(node);
    }
    compare(heap, oracle);
  }
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  llamalloc::run({data, size});
  return 0;
}
