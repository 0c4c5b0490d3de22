// SPDX-License-Identifier: Apache-2.0
// libFuzzer over parse_learned_state: whatever the bytes, it refuses with a message or gives a
// state that keeps its invariants, gives a class for each node, and merges.
//   the first byte   whether the checksum is set right, the program, the bound of the merge
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/crc32.h"
#include "base/fuzz_input.h"
#include "os/fake/fuzz_pages.h"
#include "policy/learned_state.h"

namespace llamalloc {
namespace {

void seal(std::vector<char>& bytes) {
  if (bytes.size() < kLearnedTailBytes) return;
  const size_t end = bytes.size() - kLearnedTailBytes;
  const uint32_t crc = crc32(0, bytes.data(), end);
  for (size_t i = 0; i < kLearnedTailBytes; ++i) bytes[end + i] = static_cast<char>(crc >> 8 * i);
}

void use(LearnedState& state, size_t bound, FuzzPages& pages) {
  const LearnedNodes nodes = state.nodes.view();
  if (!is_sorted(nodes) || nodes.size() > kMaxLearnedNodes) abort();
  for (const LearnedNode& node : nodes)
    if (verdict_of(node.evidence).lifetime > LifetimeClass::mixed) abort();
  NodeArray sum;
  const LearnedNodes half = nodes.first(nodes.size() / 2);
  if (!merge_nodes(nodes, half, nodes, bound, pages, &sum)) abort();
  if (!is_sorted(sum.view()) || sum.size() > bound) abort();
}

void run(FuzzInput input, FuzzPages& pages) {
  const uint8_t choice = input.byte();
  const LearnedProgram program{choice, choice & 2 ? "redis-server" : ""};
  std::vector<char> bytes(input.rest(), input.rest() + input.left());
  if (choice & 1) seal(bytes);
  char message[512];
  ErrorText error(message, sizeof(message));
  LearnedState state;
  const ReadStatus status =
      parse_learned_state(bytes.data(), bytes.size(), program, pages, &state, error);
  if ((status == ReadStatus::ok) != (message[0] == 0)) abort();
  if (status == ReadStatus::absent || strpbrk(message, "\n\r") != nullptr) abort();
  if (is_usable(status)) return use(state, choice >> 2, pages);
  if (state.nodes.size() != 0) abort();
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llamalloc::FuzzPages pages;
  pages.reset();
  llamalloc::run({data, size}, pages);
  return 0;
}
