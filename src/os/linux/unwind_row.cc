// SPDX-License-Identifier: Apache-2.0
#include "os/linux/unwind_row.h"

#include "os/linux/eh_frame_reader.h"

namespace llamalloc {
namespace {

constexpr uint8_t kOpBregRbp = 0x70 + kRbp;
constexpr uint8_t kOpDeref = 0x06;

constexpr bool fits(int64_t value, int bits) {
  return value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1);
}
// Where a register is saved, relative to the anchor.
struct Saved {
  bool saved = false;
  int64_t offset = 0;
};
constexpr uint64_t saved_bits(Saved s, int flag, int at) {
  if (!s.saved) return 0;
  return uint64_t{1} << flag | (static_cast<uint64_t>(s.offset / 8) & 0xfff) << at;
}
constexpr Row make_row(RowKind kind, bool at_rbp, int64_t offset, Saved rbp, Saved rbx) {
  const uint64_t low = static_cast<uint32_t>(static_cast<uint64_t>(offset) << 4) |
                       (at_rbp ? 8u : 0u) | static_cast<uint32_t>(kind);
  return Row(low | saved_bits(rbp, 32, 40) | saved_bits(rbx, 33, 52));
}
constexpr Row make_row(RowKind kind) {
  return make_row(kind, false, 0, {}, {});
}
static_assert(make_row(RowKind::kFromSp, false, -24, {true, -16}, {}).offset() == -24);
static_assert(make_row(RowKind::kFromSp, false, -24, {true, -16}, {}).rbp() == -16);
static_assert(make_row(RowKind::kFromRbp, true, 1 << 26, {true, 0}, {true, -32}).rbx() == -32);
static_assert(make_row(RowKind::kFromRbp, true, 1 << 26, {true, 0}, {true, -32}).saves_rbp());
static_assert(make_row(RowKind::kFromRbp, true, 1 << 26, {}, {true, -32}).offset() == 1 << 26);

// Whether the expression is rbp + *offset, and then, if asked for, a load.
bool is_rbp_offset(const uint8_t* expression, bool load, int64_t* offset) {
  EhReader head(expression, expression + 10);
  const uint64_t size = head.uleb();
  if (!head.ok() || size < 2 || size > 8) return false;
  EhReader reader(head.at(), head.at() + size);
  if (reader.read<uint8_t>() != kOpBregRbp) return false;
  *offset = reader.sleb();
  if (load && reader.read<uint8_t>() != kOpDeref) return false;
  return reader.ok() && !reader.more();
}

// False: not expressible.
bool pack_saved(const Rule& rule, bool at_rbp, Saved* out) {
  if (rule.kind == RuleKind::kSame) return true;
  out->saved = true;
  if (rule.kind == RuleKind::kOffset && !at_rbp) {
    out->offset = rule.offset;
  } else if (rule.kind != RuleKind::kExpression || !at_rbp ||
             !is_rbp_offset(rule.expression(), false, &out->offset)) {
    return false;
  }
  return out->offset % 8 == 0 && fits(out->offset / 8, 12);
}

bool pack_cfa(const Rule& cfa, RowKind* kind, int64_t* offset) {
  *kind = RowKind::kRealigned;
  if (cfa.kind == RuleKind::kValueExpression) return is_rbp_offset(cfa.expression(), true, offset);
  if (cfa.kind != RuleKind::kRegister) return false;
  *offset = cfa.offset;
  *kind = cfa.reg == kRsp   ? RowKind::kFromSp
          : cfa.reg == kRbp ? RowKind::kFromRbp
          : cfa.reg == kRbx ? RowKind::kFromRbx
                            : RowKind::kGeneral;
  return *kind != RowKind::kGeneral;
}

}  // namespace

Row pack_row(const FrameRules& rules, bool signal_frame) {
  const Row general = make_row(RowKind::kGeneral);
  const Rule& address = rules.of[kReturnAddress];
  if (address.kind == RuleKind::kUndefined) return make_row(RowKind::kOutermost);
  RowKind kind;
  int64_t offset;
  Saved rbp, rbx;
  if (signal_frame || address.kind != RuleKind::kOffset || address.offset != -8) return general;
  if (rules.of[kRsp].kind != RuleKind::kSame) return general;
  if (!pack_cfa(rules.cfa, &kind, &offset) || !fits(offset, 28)) return general;
  const bool at_rbp =
      rules.of[kRbp].kind == RuleKind::kExpression || rules.of[kRbx].kind == RuleKind::kExpression;
  if (!pack_saved(rules.of[kRbp], at_rbp, &rbp)) return general;
  if (!pack_saved(rules.of[kRbx], at_rbp, &rbx)) return general;
  return make_row(kind, at_rbp, offset, rbp, rbx);
}

}  // namespace llamalloc
