// SPDX-License-Identifier: Apache-2.0
// The interpreter of call frame programs (DWARF 5 section 6.4.2, with GNU's two additions).
#include "os/linux/eh_frame.h"
#include "os/linux/eh_frame_reader.h"

namespace llamalloc {
namespace {

constexpr int kMaxRemembered = 4;  // compilers nest once

class Program {
 public:
  Program(const FrameEntry& entry, uintptr_t address, FrameRules* rules)
      : entry_(entry), address_(address), location_(entry.begin), rules_(*rules) {}

  bool run_initial() {
    if (!run(entry_.initial, entry_.initial_end)) return false;
    initial_ = rules_;
    location_ = entry_.begin;
    return true;
  }
  bool run_entry() { return run(entry_.program, entry_.program_end); }

 private:
  bool run(const uint8_t* from, const uint8_t* end) {
    EhReader reader(from, end);
    while (reader.more() && location_ <= address_)
      if (!instruction(&reader) || !reader.ok()) return false;
    return true;
  }

  bool instruction(EhReader* reader) {
    const uint8_t opcode = reader->read<uint8_t>();
    const uint8_t low = opcode & 0x3f;
    switch (opcode >> 6) {
      case 1:
        return advance(low);
      case 2:
        return set(low, RuleKind::kOffset, offset(reader->uleb()));
      case 3:
        return restore(low);
      default:
        return extended(opcode, reader);
    }
  }

  bool extended(uint8_t opcode, EhReader* reader) {
    switch (opcode) {
      case 0x00:
        return true;  // nop
      case 0x01:
        return location_ = reader->pointer(entry_.encoding), true;
      case 0x02:
        return advance(reader->read<uint8_t>());
      case 0x03:
        return advance(reader->read<uint16_t>());
      case 0x04:
        return advance(reader->read<uint32_t>());
      case 0x07:
        return set(reader->uleb(), RuleKind::kUndefined, 0);
      case 0x08:
        return set(reader->uleb(), RuleKind::kSame, 0);
      case 0x06:
        return restore(reader->uleb());
      case 0x0a:
        return remember();
      case 0x0b:
        return recall();
      case 0x2e:
        return reader->uleb(), true;  // GNU_args_size
      case 0x0c:
      case 0x0d:
      case 0x0e:
      case 0x0f:
      case 0x12:
      case 0x13:
        return define_cfa(opcode, reader);
      default:
        return register_rule(opcode, reader);
    }
  }

  bool register_rule(uint8_t opcode, EhReader* reader) {
    const uint64_t reg = reader->uleb();
    switch (opcode) {
      case 0x05:
        return set(reg, RuleKind::kOffset, offset(reader->uleb()));
      case 0x11:
        return set(reg, RuleKind::kOffset, signed_offset(reader));
      case 0x2f:
        return set(reg, RuleKind::kOffset, offset(0 - reader->uleb()));  // GNU
      case 0x14:
        return set(reg, RuleKind::kValueOffset, offset(reader->uleb()));
      case 0x15:
        return set(reg, RuleKind::kValueOffset, signed_offset(reader));
      case 0x10:
        return set_expression(reg, RuleKind::kExpression, reader);
      case 0x16:
        return set_expression(reg, RuleKind::kValueExpression, reader);
      case 0x09: {
        const uint64_t from = reader->uleb();
        if (from >= kFrameRegisters) return false;
        if (!set(reg, RuleKind::kRegister, 0)) return false;
        if (reg < kFrameRegisters) rules_.of[reg].reg = static_cast<uint8_t>(from);
        return true;
      }
      default:
        return false;
    }
  }

  bool define_cfa(uint8_t opcode, EhReader* reader) {
    Rule& cfa = rules_.cfa;
    if (opcode == 0x0f) {
      cfa.kind = RuleKind::kValueExpression;
      cfa.set_expression(reader->at());
      reader->skip(reader->uleb());
      return true;
    }
    const bool names_register = opcode == 0x0c || opcode == 0x0d || opcode == 0x12;
    if (names_register) {
      const uint64_t reg = reader->uleb();
      if (reg >= kFrameRegisters) return false;
      if (cfa.kind != RuleKind::kRegister) cfa.offset = 0;
      cfa.kind = RuleKind::kRegister;
      cfa.reg = static_cast<uint8_t>(reg);
    } else if (cfa.kind != RuleKind::kRegister) {
      return false;  // an offset to an expression
    }
    if (opcode == 0x0c || opcode == 0x0e) cfa.offset = static_cast<int64_t>(reader->uleb());
    if (opcode == 0x12 || opcode == 0x13) cfa.offset = signed_offset(reader);
    return true;
  }

  bool advance(uint64_t delta) {
    location_ += delta * entry_.code_align;
    return true;
  }
  int64_t offset(uint64_t factored) const {
    return static_cast<int64_t>(factored * static_cast<uint64_t>(entry_.data_align));
  }
  int64_t signed_offset(EhReader* reader) const {
    return offset(static_cast<uint64_t>(reader->sleb()));
  }
  // Registers that we do not follow (vectors, say) may have any rule.
  bool set(uint64_t reg, RuleKind kind, int64_t value) {
    if (reg >= kFrameRegisters) return true;
    rules_.of[reg].kind = kind;
    rules_.of[reg].offset = value;
    return true;
  }
  bool set_expression(uint64_t reg, RuleKind kind, EhReader* reader) {
    const uint8_t* expression = reader->at();
    reader->skip(reader->uleb());
    if (reg >= kFrameRegisters) return true;
    rules_.of[reg].kind = kind;
    rules_.of[reg].set_expression(expression);
    return true;
  }
  bool restore(uint64_t reg) {
    if (reg < kFrameRegisters) rules_.of[reg] = initial_.of[reg];
    return true;
  }
  bool remember() {
    if (remembered_count_ == kMaxRemembered) return false;
    remembered_[remembered_count_++] = rules_;
    return true;
  }
  bool recall() {
    if (remembered_count_ == 0) return false;
    rules_ = remembered_[--remembered_count_];
    return true;
  }

  const FrameEntry& entry_;
  const uintptr_t address_;
  uintptr_t location_;
  FrameRules& rules_;
  FrameRules initial_;
  FrameRules remembered_[kMaxRemembered];
  int remembered_count_ = 0;
};

}  // namespace

bool run_frame_program(const FrameEntry& entry, uintptr_t address, FrameRules* out) {
  *out = FrameRules{};
  Program program(entry, address, out);
  return program.run_initial() && program.run_entry();
}

}  // namespace llamalloc
