// SPDX-License-Identifier: Apache-2.0
// Bytes as the unwind tables of a module (.eh_frame_hdr first), and what the unwinder does with an
// address in them: find the entry, run its program, pack the row, evaluate expressions. Reads stay
// inside the bytes and the stack, and everything ends.
//
//   first two bytes   how many of the bytes behind them are the stack; then the module
#include "os/linux/eh_frame.h"

#include "base/check.h"
#include "base/fuzz_input.h"
#include "os/linux/unwind_row.h"

namespace llamalloc {
namespace {

class Run {
 public:
  explicit Run(FuzzInput input) {
    const size_t wanted = input.below(65536);
    const size_t stack = wanted < input.left() ? wanted : input.left();
    const uint8_t* const rest = input.rest();
    window_.image = reinterpret_cast<const char*>(rest);
    window_.low = 0x7000'0000'0000;
    window_.high = window_.low + stack;
    module_.index = rest + stack;
    module_.start = reinterpret_cast<uintptr_t>(module_.index);
    module_.limit = module_.start + (input.left() - stack);
    registers_.known = (1u << kFrameRegisters) - 1;
    for (int i = 0; i < kFrameRegisters; ++i) registers_.of[i] = window_.low + 8 * i;
  }

  void run() {
    module_identity(module_);
    // A row of the index: where a function starts, from the header on.
    for (size_t at = 12; at + 8 <= module_.limit - module_.start && at < 12 + 8 * 64; at += 8) {
      int32_t offset;
      memcpy(&offset, module_.index + at, sizeof(offset));
      const uintptr_t function = module_.start + static_cast<uintptr_t>(intptr_t{offset});
      for (const uintptr_t into : {0, 1, 4, 17, 200}) visit(function + into);
    }
    visit(module_.start);
    visit(~uintptr_t{0});
  }

 private:
  void visit(uintptr_t address) {
    FrameEntry entry;
    FrameRules rules;
    if (!find_frame_entry(module_, address, &entry)) return;
    CHECK_LT(address - entry.begin, entry.end - entry.begin);
    if (!run_frame_program(entry, address, &rules)) return;
    pack_row(rules, entry.signal_frame);
    uint64_t cfa = window_.low, value;
    if (rules.cfa.kind == RuleKind::kValueExpression) evaluate(rules.cfa, nullptr, &cfa);
    for (const Rule& rule : rules.of)
      if (rule.kind == RuleKind::kExpression || rule.kind == RuleKind::kValueExpression)
        evaluate(rule, &cfa, &value);
  }

  void evaluate(const Rule& rule, const uint64_t* initial, uint64_t* value) {
    evaluate_expression(rule.expression(), registers_, window_, initial, value);
  }

  UnwindModule module_;
  StackWindow window_;
  RegisterFile registers_{};
};

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  llamalloc::Run({data, size}).run();
  return 0;
}
