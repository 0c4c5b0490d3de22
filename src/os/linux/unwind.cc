// SPDX-License-Identifier: Apache-2.0
#include "os/unwind.h"

#include <signal.h>

#include "base/code_key.h"
#include "os/linux/eh_frame.h"
#include "os/linux/unwind_row.h"
#include "os/linux/unwind_stack.h"

namespace llamalloc {

#if defined(__x86_64__)
namespace {

RowCache row_cache;
std::atomic<uint64_t> generation{0};  // in every key; relaxed: a late reader sees an old row once

constexpr int kMaxInnerFrames = 32;  // of ours, between the walk and the context's first frame

enum class Step { kCaller, kOutermost, kLost };

// The modules that a walk has met: their identity is checked once in a walk.
class ModuleMemo {
 public:
  // looks: none of this stack's code runs any more, so that its modules may have changed.
  explicit ModuleMemo(bool looks = false) : looks_(looks) {}

  bool find(uintptr_t address, UnwindModule* out) {
    for (int i = 0; i < kModules; ++i)
      if (modules_[i].contains(address)) return *out = modules_[i], true;
    if (looks_ ? !find_whole_module(address, out) : !find_unwind_module(address, out)) return false;
    modules_[next_++ % kModules] = *out;
    return true;
  }

 private:
  static constexpr int kModules = 4;
  UnwindModule modules_[kModules];
  unsigned next_ = 0;
  const bool looks_;
};

[[gnu::noinline]] Row compute_row(const UnwindModule& module, uintptr_t address, uint64_t key) {
  FrameEntry entry;
  FrameRules rules;
  if (!find_frame_entry(module, address, &entry)) return Row();
  if (!run_frame_program(entry, address, &rules)) return Row();
  const Row row = pack_row(rules, entry.signal_frame);
  row_cache.put(key, row);
  return row;
}

// The caller's value of a register by its rule. False: not known.
bool apply_rule(const Rule& rule, int reg, const RegisterFile& callee, const StackWindow& window,
                uint64_t cfa, uint64_t* value) {
  uint64_t address = cfa + static_cast<uint64_t>(rule.offset);
  switch (rule.kind) {
    case RuleKind::kSame:
      *value = callee.of[reg];
      return callee.known >> reg & 1;
    case RuleKind::kUndefined:
      return false;
    case RuleKind::kOffset:
      return read_stack(window, address, value);
    case RuleKind::kValueOffset:
      *value = address;
      return true;
    case RuleKind::kRegister:
      *value = callee.of[rule.reg];
      return callee.known >> rule.reg & 1;
    case RuleKind::kExpression:
      return evaluate_expression(rule.expression(), callee, window, &cfa, &address) &&
             read_stack(window, address, value);
    case RuleKind::kValueExpression:
      return evaluate_expression(rule.expression(), callee, window, &cfa, value);
  }
  return false;
}

bool compute_cfa(const Rule& rule, const RegisterFile& callee, const StackWindow& window,
                 uint64_t* cfa) {
  if (rule.kind == RuleKind::kValueExpression)
    return evaluate_expression(rule.expression(), callee, window, nullptr, cfa);
  if (rule.kind != RuleKind::kRegister || !(callee.known >> rule.reg & 1)) return false;
  *cfa = callee.of[rule.reg] + static_cast<uint64_t>(rule.offset);
  return true;
}

// One step by the full rules: signal frames, linkage table entries, hand-written code.
[[gnu::noinline]] Step general_step(const UnwindModule& module, uintptr_t address,
                                    const StackWindow& window, RegisterFile* registers,
                                    bool* interrupted) {
  FrameEntry entry;
  FrameRules rules;
  if (!find_frame_entry(module, address, &entry)) return Step::kLost;
  *interrupted = entry.signal_frame;
  if (!run_frame_program(entry, address, &rules)) return Step::kLost;
  const RegisterFile callee = *registers;
  uint64_t cfa;
  if (!compute_cfa(rules.cfa, callee, window, &cfa)) return Step::kLost;
  registers->known = 0;
  registers->of[kRsp] = cfa;
  for (int i = 0; i < kFrameRegisters; ++i) {
    if (i == kRsp && rules.of[i].kind == RuleKind::kSame) {
      registers->known |= 1u << i;
    } else if (apply_rule(rules.of[i], i, callee, window, cfa, &registers->of[i])) {
      registers->known |= 1u << i;
    }
  }
  if (entry.return_register != kReturnAddress || !(registers->known >> kReturnAddress & 1))
    return Step::kLost;
  return registers->of[kRsp] > callee.of[kRsp] ? Step::kCaller : Step::kLost;
}

// The state of a walk: the registers of one frame after another. Only copies of its members are
// handed to functions that are not inlined, so that the members live in registers.
class Walker {
 public:
  Walker(const Registers& start, const StackWindow& window)
      : window_(window), pc_(start.pc), sp_(start.sp), rbp_(start.rbp), rbx_(start.rbx) {}

  uintptr_t pc() const { return pc_; }
  // In the module that the last step found; 0: it found none there.
  uint64_t image_of(uintptr_t pc) const { return module_.contains(pc - 1) ? module_.identity : 0; }
  uint64_t code_of(uintptr_t pc) const {
    return module_.contains(pc) ? code_key(module_.build, pc - module_.start) : 0;
  }
  uintptr_t stack_pointer() const { return sp_; }
  // The last step left a signal handler, or tried to.
  bool left_handler() const { return interrupted_; }
  Registers registers() const { return {pc_, sp_, rbp_, rbx_}; }

  // On to the caller.
  [[gnu::always_inline]] Step step(ModuleMemo* memo, RegisterFile* file) {
    const uintptr_t address = pc_ - (interrupted_ ? 0 : 1);
    if (!module_.contains(address)) [[unlikely]]
      if (!memo->find(address, &module_)) return Step::kLost;
    const uint64_t key = module_.identity ^ salt_ ^ address;
    Row row = row_cache.find(key);
    if (row.kind() == RowKind::kMissing) [[unlikely]] {
      const UnwindModule module = module_;
      row = compute_row(module, address, key);
    }
    return follow(row, address, file);
  }

 private:
  [[gnu::always_inline]] Step follow(Row row, uintptr_t address, RegisterFile* file) {
    uint64_t cfa = static_cast<uint64_t>(row.offset());
    switch (row.kind()) {
      [[likely]] case RowKind::kFromSp:
        cfa += sp_;
        break;
      case RowKind::kFromRbp:
        cfa += rbp_;
        break;
      case RowKind::kFromRbx:
        cfa += rbx_;
        break;
      case RowKind::kRealigned:
        if (!read_stack(window_, rbp_ + cfa, &cfa)) return Step::kLost;
        break;
      case RowKind::kOutermost:
        return Step::kOutermost;
      case RowKind::kGeneral:
        return follow_general(address, file);
      default:
        return Step::kLost;
    }
    if (cfa <= sp_ || !read_stack(window_, cfa - 8, &pc_)) return Step::kLost;
    const uint64_t anchor = row.anchored_at_rbp() ? rbp_ : cfa;
    if (row.saves_rbx() && !read_stack(window_, anchor + row.rbx(), &rbx_)) return Step::kLost;
    if (row.saves_rbp() && !read_stack(window_, anchor + row.rbp(), &rbp_)) return Step::kLost;
    sp_ = cfa;
    interrupted_ = false;
    file->known = 0;
    return pc_ != 0 ? Step::kCaller : Step::kOutermost;
  }

  [[gnu::always_inline]] Step follow_general(uintptr_t address, RegisterFile* file) {
    file->of[kRbx] = rbx_;
    file->of[kRbp] = rbp_;
    file->of[kRsp] = sp_;
    file->of[kReturnAddress] = pc_;
    file->known |= 1u << kRbx | 1u << kRbp | 1u << kRsp | 1u << kReturnAddress;
    const UnwindModule module = module_;
    const StackWindow window = window_;
    interrupted_ = false;
    const Step step = general_step(module, address, window, file, &interrupted_);
    if (step != Step::kCaller) return step;
    rbx_ = file->known >> kRbx & 1 ? file->of[kRbx] : 0;
    rbp_ = file->known >> kRbp & 1 ? file->of[kRbp] : 0;
    sp_ = file->of[kRsp];
    pc_ = file->of[kReturnAddress];
    return pc_ != 0 ? Step::kCaller : Step::kOutermost;
  }

  const StackWindow window_;
  uintptr_t pc_, sp_, rbp_, rbx_;
  bool interrupted_ = false;  // pc was not the return address of a call
  UnwindModule module_;
  const uint64_t salt_ = generation.load(std::memory_order_relaxed) * 0x9E3779B97F4A7C15ull;
};

// Walks from start to the outermost frame. Frames inside the first one whose pc is `from` are left
// out (0: none are). Returns false where `from` was not met.
[[gnu::always_inline]] inline bool walk(const Registers& start, const StackWindow& window,
                                        uintptr_t from, StackTrace* out, bool looks = false) {
  ModuleMemo memo(looks);
  RegisterFile file;
  Walker walker(start, window);
  Step step = Step::kCaller;
  for (int inner = 0; from != 0 && walker.pc() != from; ++inner) {
    if (inner == kMaxInnerFrames) return false;
    step = walker.step(&memo, &file);
    if (step != Step::kCaller) return false;
  }
  int depth = 0;
  do {
    const uintptr_t stack_pointer = walker.stack_pointer();
    out->frames[depth] = walker.pc();
    step = walker.step(&memo, &file);
    if (step == Step::kCaller)
      out->sizes[depth] = static_cast<uint32_t>(walker.stack_pointer() - stack_pointer);
    out->codes[depth] = walker.code_of(out->frames[depth]);
    out->images[depth] = walker.image_of(out->frames[depth]);
    ++depth;
  } while (step == Step::kCaller && depth < kMaxFrames);
  out->depth = static_cast<uint16_t>(depth);
  out->truncated = step != Step::kOutermost;
  return true;
}

void only_frame(uintptr_t pc, StackTrace* out) {
  out->depth = 1;
  out->truncated = true;
  out->frames[0] = pc;
  out->images[0] = 0;
  out->codes[0] = code_of(pc);
}

}  // namespace

[[gnu::noinline]] static void walk_all(const Registers& start, const StackWindow& window,
                                       StackTrace* out, bool looks) {
  walk(start, window, 0, out, looks);
}

void unwind(const Registers& start, const StackWindow& window, StackTrace* out) {
  walk_all(start, window, out, false);
}

void unwind_from_here(uintptr_t return_address, StackTrace* out) {
  const Registers here = capture_registers();
  if (!walk(here, current_stack_window(here.sp), return_address, out))
    only_frame(return_address, out);
}

bool is_in_signal_handler() {
  stack_t own;
  if (sigaltstack(nullptr, &own) == 0 && (own.ss_flags & SS_ONSTACK) != 0) return true;
  const Registers here = capture_registers();
  ModuleMemo memo;
  RegisterFile file;
  Walker walker(here, current_stack_window(here.sp));
  while (walker.step(&memo, &file) == Step::kCaller && !walker.left_handler()) {
  }
  return walker.left_handler();
}

bool find_caller(const Registers& start, const StackWindow& window, uintptr_t return_address,
                 Registers* out) {
  ModuleMemo memo;
  RegisterFile file;
  Walker walker(start, window);
  for (int inner = 0; walker.pc() != return_address; ++inner)
    if (inner == kMaxInnerFrames || walker.step(&memo, &file) != Step::kCaller) return false;
  *out = walker.registers();
  return true;
}

void unwind_snapshot(const StackSnapshot& snapshot, StackTrace* out) {
  auto work = [&] { walk_all(snapshot.registers, snapshot.window, out, true); };
  with_modules_held(work);
}

void unwind_cache_clear() {
  generation.fetch_add(1, std::memory_order_relaxed);
}

uint64_t code_of(uintptr_t return_address) {
  UnwindModule module;
  return find_unwind_module(return_address - 1, &module)
             ? code_key(module.build, return_address - module.start)
             : 0;
}

bool find_code_module(uintptr_t return_address, CodeModule* out) {
  UnwindModule module;
  if (!find_unwind_module(return_address - 1, &module)) return false;
  *out = {module.start, module.limit, module.build};
  return true;
}

uint64_t build_of_code(uintptr_t address) {
  UnwindModule module;
  return find_unwind_module(address, &module) ? module.build : 0;
}

uintptr_t unwind_function_start(uintptr_t pc) {
  UnwindModule module;
  FrameEntry entry;
  if (!find_unwind_module(pc, &module) || !find_frame_entry(module, pc, &entry)) return 0;
  return entry.begin;
}

uint32_t unwind_frame_bytes(uintptr_t return_address) {
  Row row;
  auto work = [&] {
    UnwindModule module;
    if (!find_whole_module(return_address - 1, &module)) return;
    row = compute_row(module, return_address - 1, module.identity ^ (return_address - 1));
  };
  with_modules_held(work);
  return row.kind() == RowKind::kFromSp && row.offset() > 0 ? static_cast<uint32_t>(row.offset())
                                                            : 0;
}

#else  // other processors: the first frame only

void unwind(const Registers& start, const StackWindow&, StackTrace* out) {
  out->depth = 1;
  out->truncated = true;
  out->frames[0] = start.pc;
}
void unwind_from_here(uintptr_t return_address, StackTrace* out) {
  unwind({return_address}, {}, out);
}
bool is_in_signal_handler() {
  return false;
}
bool find_caller(const Registers&, const StackWindow&, uintptr_t, Registers*) {
  return false;
}
void unwind_snapshot(const StackSnapshot& snapshot, StackTrace* out) {
  unwind(snapshot.registers, {}, out);
}
void unwind_cache_clear() {}
uintptr_t unwind_function_start(uintptr_t) {
  return 0;
}
uint32_t unwind_frame_bytes(uintptr_t) {
  return 0;
}
uint64_t code_of(uintptr_t) {
  return 0;
}
bool find_code_module(uintptr_t, CodeModule*) {
  return false;
}
uint64_t build_of_code(uintptr_t) {
  return 0;
}

#endif

}  // namespace llamalloc
