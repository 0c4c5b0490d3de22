// SPDX-License-Identifier: Apache-2.0
// libFuzzer over parse_learned_state: whatever the bytes, it refuses with a message or gives a
// state that keeps its invariants, gives a class for each node, merges, and is carried over to a
// build whose functions are those of its own frames, some of them changed.
//   the first byte   whether the checksum is set right, the program, the bound of the merge
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/crc32.h"
#include "base/fuzz_input.h"
#include "learning/carry_over.h"
#include "learning/learned_state.h"
#include "os/fake/fuzz_pages.h"
#include "predict/context_tree.h"

namespace llamalloc {
namespace {

void seal(std::vector<char>& bytes) {
  if (bytes.size() < kLearnedChecksumBytes) return;
  const size_t end = bytes.size() - kLearnedChecksumBytes;
  const uint32_t crc = crc32(0, bytes.data(), end);
  for (size_t i = 0; i < kLearnedChecksumBytes; ++i)
    bytes[end + i] = static_cast<char>(crc >> 8 * i);
}

void use(LearnedState& state, size_t bound, FuzzPages& pages) {
  const LearnedNodes nodes = state.nodes.view();
  if (!is_sorted(nodes) || nodes.size() > kMaxOldNodes) abort();
  for (const LearnedNode& node : nodes)
    if (verdict_of(node.evidence).lifetime > LifetimeClass::mixed) abort();
  NodeArray sum;
  const LearnedNodes half = nodes.first(nodes.size() / 2);
  if (!merge_nodes(nodes, half, nodes, bound, pages, &sum)) abort();
  if (!is_sorted(sum.view()) || sum.size() > bound) abort();
  settle_differs(sum.rows(), pages);
}

// Of each frame, one function, elsewhere than it was.
class FuzzFunctions final : public LoadedFunctions {
 public:
  explicit FuzzFunctions(LearnedFrames frames, uint8_t choice) : choice_(choice) {
    for (const LearnedFrame& frame : frames) shapes_.push_back(frame.function);
  }
  void visit_all(Visitor& visitor) override {
    for (size_t i = 0; i < shapes_.size(); ++i) {
      FunctionShape shape = shapes_[i];
      if (i % 4 == choice_ % 4U) shape.self ^= 2;
      visitor.visit({shape, choice_, i << 12, i << 12});
    }
  }
  uint32_t find_call(uintptr_t, const CallShape& call, uint32_t* offsets) override {
    for (uint32_t i = 0; i < CallShape::kMostPlaces; ++i) offsets[i] = 5 * i + 5;
    return call.ordinal % (CallShape::kMostPlaces + 1);
  }
  bool look_at(uintptr_t, CodeShape*) override { return false; }

 private:
  std::vector<FunctionShape> shapes_;
  uint8_t choice_;
};

void carry(LearnedState& state, uint8_t choice, FuzzPages& pages) {
  FuzzFunctions functions(state.frames.view(), choice);
  const size_t before = state.nodes.size();
  const double share = carry_over(&state, functions, pages);
  if (!(share >= 0 && share <= 1) || state.nodes.size() < before) abort();
  if (!is_sorted(state.nodes.view()) || !is_sorted(state.frames.view())) abort();
  for (const LearnedNode& node : state.nodes.view())
    if (node.path_is_known() && ContextPath::extend(node.parent, node.word) != node.key) abort();
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
  if (is_usable(status)) {
    use(state, choice >> 2, pages);
    return carry(state, choice, pages);
  }
  if (state.nodes.size() + state.frames.size() != 0) abort();
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static llamalloc::FuzzPages pages;
  pages.reset();
  llamalloc::run({data, size}, pages);
  return 0;
}
