// SPDX-License-Identifier: Apache-2.0
// DWARF expressions (DWARF 5 section 2.5) as far as frames use them: constants, registers,
// arithmetic, memory of the stack. No branches, so evaluation ends with the bytes.
#include "os/linux/eh_frame.h"
#include "os/linux/eh_frame_reader.h"

namespace llamalloc {
namespace {

constexpr uint64_t kMaxExpression = 256;

class Evaluator {
 public:
  Evaluator(const RegisterFile& registers, const StackWindow& window)
      : registers_(registers), window_(window) {}

  bool push(uint64_t value) {
    if (depth_ == kMaxDepth) return false;
    stack_[depth_++] = value;
    return true;
  }
  bool result(uint64_t* value) const {
    if (depth_ == 0) return false;
    *value = stack_[depth_ - 1];
    return true;
  }

  bool operation(EhReader* reader) {
    const uint8_t op = reader->read<uint8_t>();
    if (op >= 0x30 && op <= 0x4f) return push(op - 0x30);  // lit0..lit31
    if (op >= 0x50 && op <= 0x6f) return push_register(op - 0x50, 0);
    if (op >= 0x70 && op <= 0x8f) return push_register(op - 0x70, reader->sleb());
    switch (op) {
      case 0x03:
        return push(reader->read<uint64_t>());  // addr
      case 0x06:
        return dereference();
      case 0x08:
        return push(reader->read<uint8_t>());
      case 0x09:
        return push(static_cast<uint64_t>(int64_t{reader->read<int8_t>()}));
      case 0x0a:
        return push(reader->read<uint16_t>());
      case 0x0b:
        return push(static_cast<uint64_t>(int64_t{reader->read<int16_t>()}));
      case 0x0c:
        return push(reader->read<uint32_t>());
      case 0x0d:
        return push(static_cast<uint64_t>(int64_t{reader->read<int32_t>()}));
      case 0x0e:
      case 0x0f:
        return push(reader->read<uint64_t>());
      case 0x10:
        return push(reader->uleb());
      case 0x11:
        return push(static_cast<uint64_t>(reader->sleb()));
      case 0x12:
        return depth_ > 0 && push(stack_[depth_ - 1]);  // dup
      case 0x13:
        return depth_ > 0 && depth_-- > 0;  // drop
      case 0x14:
        return depth_ > 1 && push(stack_[depth_ - 2]);  // over
      case 0x23:
        return depth_ > 0 && add(reader->uleb());  // plus_uconst
      case 0x96:
        return true;  // nop
      default:
        return binary(op);
    }
  }

 private:
  static constexpr int kMaxDepth = 16;

  bool push_register(int reg, int64_t offset) {
    if (reg >= kFrameRegisters || !(registers_.known >> reg & 1)) return false;
    return push(registers_.of[reg] + static_cast<uint64_t>(offset));
  }
  bool dereference() {
    return depth_ > 0 && read_stack(window_, stack_[depth_ - 1], &stack_[depth_ - 1]);
  }
  bool add(uint64_t value) {
    stack_[depth_ - 1] += value;
    return true;
  }
  bool binary(uint8_t op) {
    if (depth_ < 2) return false;
    const uint64_t b = stack_[--depth_];
    uint64_t& a = stack_[depth_ - 1];
    const int64_t sa = static_cast<int64_t>(a), sb = static_cast<int64_t>(b);
    switch (op) {
      case 0x1a:
        a &= b;
        return true;
      case 0x1c:
        a -= b;
        return true;
      case 0x1e:
        a *= b;
        return true;
      case 0x21:
        a |= b;
        return true;
      case 0x22:
        a += b;
        return true;
      case 0x24:
        a = b < 64 ? a << b : 0;
        return true;
      case 0x25:
        a = b < 64 ? a >> b : 0;
        return true;
      case 0x27:
        a ^= b;
        return true;
      case 0x29:
        a = sa == sb;
        return true;
      case 0x2a:
        a = sa >= sb;
        return true;
      case 0x2b:
        a = sa > sb;
        return true;
      case 0x2c:
        a = sa <= sb;
        return true;
      case 0x2d:
        a = sa < sb;
        return true;
      case 0x2e:
        a = sa != sb;
        return true;
      default:
        return false;
    }
  }

  const RegisterFile& registers_;
  const StackWindow& window_;
  uint64_t stack_[kMaxDepth];
  int depth_ = 0;
};

}  // namespace

bool evaluate_expression(const uint8_t* expression, const RegisterFile& registers,
                         const StackWindow& window, const uint64_t* initial, uint64_t* value) {
  // The interpreter of programs has read over these bytes: they are inside the module.
  EhReader head(expression, expression + 10);
  const uint64_t size = head.uleb();
  if (!head.ok() || size > kMaxExpression) return false;
  EhReader reader(head.at(), head.at() + size);
  Evaluator evaluator(registers, window);
  if (initial != nullptr) evaluator.push(*initial);
  while (reader.more())
    if (!evaluator.operation(&reader) || !reader.ok()) return false;
  return evaluator.result(value);
}

}  // namespace llamalloc
