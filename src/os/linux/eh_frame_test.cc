// SPDX-License-Identifier: Apache-2.0
// The parser of unwind tables on whole modules, and on mutated ones: it must end and stay inside.
#include "os/linux/eh_frame.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "base/code_key.h"
#include "os/linux/eh_frame_reader.h"
#include "os/linux/elf_file.h"
#include "os/linux/unwind_row.h"

namespace llamalloc {
namespace {

// This program's file as a module whose end is the end of readable memory. Its tables are relative
// to themselves, so they work wherever the file lies.
class FileModule {
 public:
  FileModule() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    original_.assign(std::istreambuf_iterator<char>(file), {});
    const Elf64_Phdr table = tables_segment();
    index_ = table.p_offset;
    // The rows of .eh_frame stand behind the index, in the same segment.
    original_.resize(end_);
    mapped_ = (end_ + 4095) / 4096 * 4096 + 4096;
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + mapped_ - 4096, 4096, PROT_NONE);
    reset();
  }
  ~FileModule() { munmap(base_, mapped_); }

  void reset() { memcpy(bytes(), original_.data(), original_.size()); }
  uint8_t* bytes() { return base_ + mapped_ - 4096 - end_; }
  size_t index() const { return index_; }
  size_t end() const { return end_; }
  UnwindModule module() {
    UnwindModule m;
    m.start = reinterpret_cast<uintptr_t>(bytes());
    m.limit = m.start + end_;
    m.index = bytes() + index_;
    return m;
  }
  // Where function i of the index starts.
  uintptr_t function(uint32_t i) {
    int32_t offset;
    memcpy(&offset, bytes() + index_ + 12 + size_t{i} * 8, 4);
    return reinterpret_cast<uintptr_t>(bytes()) + index_ + static_cast<intptr_t>(offset);
  }
  uint32_t functions() const {
    uint32_t count;
    memcpy(&count, original_.data() + index_ + 8, 4);
    return count;
  }

 private:
  Elf64_Phdr tables_segment() {
    Elf64_Ehdr header;
    memcpy(&header, original_.data(), sizeof(header));
    Elf64_Phdr found{}, segment;
    for (int pass = 0; pass < 2; ++pass)
      for (int i = 0; i < header.e_phnum; ++i) {
        memcpy(&segment, original_.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_GNU_EH_FRAME) found = segment;
        if (segment.p_type == PT_LOAD && segment.p_offset <= found.p_offset &&
            found.p_offset < segment.p_offset + segment.p_filesz)
          end_ = segment.p_offset + segment.p_filesz;
      }
    EXPECT_EQ(found.p_offset, found.p_vaddr);
    return found;
  }

  std::vector<char> original_;
  size_t index_ = 0, end_ = 0, mapped_ = 0;
  uint8_t* base_ = nullptr;
};

struct Outcome {
  int found = 0, run = 0, packed = 0;
};

// What the unwinder does with an address, expressions evaluated too.
void visit(const UnwindModule& module, uintptr_t address, Outcome* outcome) {
  static const char stack[256] = {};
  const uintptr_t low = reinterpret_cast<uintptr_t>(stack);
  const StackWindow window{low, low + sizeof(stack), stack};
  RegisterFile registers;
  registers.known = (1u << kFrameRegisters) - 1;
  for (uint64_t& value : registers.of) value = low + 64;
  FrameEntry entry;
  FrameRules rules;
  if (!find_frame_entry(module, address, &entry)) return;
  ++outcome->found;
  if (!run_frame_program(entry, address, &rules)) return;
  ++outcome->run;
  const RowKind kind = pack_row(rules, entry.signal_frame).kind();
  outcome->packed += kind != RowKind::kMissing && kind != RowKind::kGeneral;
  uint64_t value;
  for (const Rule& rule : rules.of)
    if (rule.kind == RuleKind::kExpression || rule.kind == RuleKind::kValueExpression)
      evaluate_expression(rule.expression(), registers, window, &value, &value);
  if (rules.cfa.kind == RuleKind::kValueExpression)
    evaluate_expression(rules.cfa.expression(), registers, window, nullptr, &value);
}

TEST(EhFrame, ReadsEveryFunctionOfThisProgram) {
  FileModule file;
  const UnwindModule module = file.module();
  Outcome outcome;
  ASSERT_GT(file.functions(), 1000u);
  for (uint32_t i = 0; i < file.functions(); ++i) visit(module, file.function(i), &outcome);
  EXPECT_EQ(outcome.found, static_cast<int>(file.functions()));
  EXPECT_EQ(outcome.run, outcome.found);
  EXPECT_GT(outcome.packed, outcome.found * 99 / 100);
}

TEST(EhFrame, SurvivesMutation) {
  FileModule file;
  const UnwindModule module = file.module();
  std::mt19937_64 random(4);
  Outcome outcome;
  constexpr int kRounds = 300, kAddresses = 300;
  for (int round = 0; round < kRounds; ++round) {
    file.reset();
    const int changes = 1 << round % 17;
    // One round in four the header, else the rows and programs behind the index.
    const size_t behind = file.index() + 12 + size_t{file.functions()} * 8;
    const size_t from = round % 4 == 0 ? file.index() : behind;
    const size_t size = round % 4 == 0 ? 12 : file.end() - behind;
    for (int i = 0; i < changes; ++i) {
      const uint64_t r = random();
      const size_t at = from + r % size;
      static constexpr uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
      file.bytes()[at] = r >> 40 & 1 ? kEdges[(r >> 48) % 5] : static_cast<uint8_t>(r >> 54);
    }
    for (int i = 0; i < kAddresses; ++i) {
      const uintptr_t address = i % 2 ? module.start + random() % file.end()
                                      : file.function(random() % file.functions()) + i % 8;
      visit(module, address, &outcome);
    }
    module_identity(module);
  }
  printf("  %d of %d lookups found a function, %d had a program that ran\n", outcome.found,
         kRounds * kAddresses, outcome.run);
  EXPECT_GT(outcome.run, 1000);
  EXPECT_LT(outcome.run, outcome.found);  // else nothing was broken
}

TEST(EhFrame, SurvivesHostileBytes) {
  std::mt19937_64 random(5);
  const auto memory = static_cast<uint8_t*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(memory + 4096, 4096, PROT_NONE), 0);
  int ran = 0;
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds; ++round) {
    uint8_t* const end = memory + 4096;
    uint8_t* const program = end - random() % 64;
    for (uint8_t* byte = program; byte < end; ++byte) *byte = static_cast<uint8_t>(random() >> 20);
    FrameEntry entry;
    entry.begin = 0x1000;
    entry.end = 0x2000;
    entry.initial = entry.initial_end = entry.program = program;
    entry.program_end = end;
    entry.encoding = static_cast<uint8_t>(random());
    entry.data_align = -8;
    FrameRules rules;
    if (!run_frame_program(entry, 0x1000 + random() % 0x1000, &rules)) continue;
    ++ran;
    pack_row(rules, false);
  }
  EXPECT_GT(ran, 100);
  EXPECT_LT(ran, kRounds);
  munmap(memory, 8192);
  const uint8_t forever[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
  EhReader reader(forever, forever + sizeof(forever));
  EXPECT_EQ(reader.uleb(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.read<uint32_t>(), 0u);
}

TEST(EhFrame, IdentitySurvivesAMutatedFirstPage) {
  FileModule file;
  const auto memory = static_cast<uint8_t*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(mprotect(memory + 4096, 4096, PROT_NONE), 0);
  UnwindModule module;
  module.start = reinterpret_cast<uintptr_t>(memory);
  module.limit = module.start + 4096;
  memcpy(memory, file.bytes(), 4096);
  const uint64_t whole = module_identity(module);
  std::mt19937_64 random(6);
  int changed = 0;
  for (int round = 0; round < 20000; ++round) {
    memcpy(memory, file.bytes(), 4096);
    for (int i = 0; i < 1 << round % 6; ++i)
      memory[4 + random() % 1020] = round % 2 ? 0xff : static_cast<uint8_t>(random());
    changed += module_identity(module) != whole;
  }
  EXPECT_GT(changed, 1000);
  munmap(memory, 8192);
}

// By the dynamic loader's list of modules, which knows the notes but not the unwind tables.
int hash_of_main_program(dl_phdr_info* info, size_t, void* out) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto notes = reinterpret_cast<const uint8_t*>(info->dlpi_addr + segment.p_vaddr);
    const MemoryBytes bytes({notes, segment.p_filesz});
    const BuildId id = find_build_id(bytes, {0, segment.p_filesz}, segment.p_align);
    if (id.size != 0) *static_cast<uint64_t*>(out) = hash_build_id(id.data, id.size);
  }
  return 1;  // the first module is the program
}

TEST(EhFrame, TheBuildIsTheHashOfTheBuildId) {
  uint64_t expected = 0;
  dl_iterate_phdr(hash_of_main_program, &expected);
  ASSERT_NE(expected, 0u) << "the test has no build-id";
  UnwindModule module;
  ASSERT_TRUE(find_unwind_module(reinterpret_cast<uintptr_t>(&hash_of_main_program), &module));
  EXPECT_EQ(module.build, expected);
  EXPECT_EQ(module_build(module), expected);
  EXPECT_EQ(module.identity, module_identity(module));
}

TEST(EhFrame, TheBuildIsTheSameAtAnyAddressButTheIdentityIsNot) {
  FileModule file;
  const auto memory = static_cast<uint8_t*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  UnwindModule modules[2];
  for (int i = 0; i < 2; ++i) {
    memcpy(memory + i * 4096, file.bytes(), 4096);
    modules[i].start = reinterpret_cast<uintptr_t>(memory + i * 4096);
    modules[i].limit = modules[i].start + 4096;
    modules[i].index = reinterpret_cast<const uint8_t*>(modules[i].start);
  }
  UnwindModule program;
  ASSERT_TRUE(find_unwind_module(reinterpret_cast<uintptr_t>(&hash_of_main_program), &program));
  EXPECT_EQ(module_build(modules[0]), program.build);
  EXPECT_EQ(module_build(modules[1]), program.build);
  EXPECT_NE(module_identity(modules[0]), module_identity(modules[1]));
  // Without its notes, a module is known by its shape, also at any address.
  for (int i = 0; i < 2; ++i) {
    Elf64_Ehdr& header = *reinterpret_cast<Elf64_Ehdr*>(memory + i * 4096);
    header.e_phnum = 0;
  }
  EXPECT_NE(module_build(modules[0]), program.build);
  EXPECT_NE(module_build(modules[0]), 0u);
  EXPECT_EQ(module_build(modules[0]), module_build(modules[1]));
  EXPECT_NE(module_identity(modules[0]), module_identity(modules[1]));
  munmap(memory, 8192);
}

// Expressions as compilers write them.
TEST(EhFrame, EvaluatesExpressions) {
  const uint64_t stack[4] = {11, 22, 33, 44};
  const uintptr_t low = reinterpret_cast<uintptr_t>(stack);
  const StackWindow window{low, low + sizeof(stack), reinterpret_cast<const char*>(stack)};
  RegisterFile registers;
  registers.known = 1u << kRbp | 1u << kRsp | 1u << kReturnAddress;
  registers.of[kRbp] = low + 8;
  registers.of[kRsp] = low;
  registers.of[kReturnAddress] = 0x100b;
  uint64_t value = 0;
  const uint8_t realigned[] = {3, 0x76, 0x78, 0x06};  // the word at rbp - 8
  ASSERT_TRUE(evaluate_expression(realigned, registers, window, nullptr, &value));
  EXPECT_EQ(value, 11u);
  // rsp + 8 + ((rip & 15) >= 11) * 8: entries of a linkage table
  const uint8_t linkage[] = {11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
  ASSERT_TRUE(evaluate_expression(linkage, registers, window, nullptr, &value));
  EXPECT_EQ(value, low + 16);
  registers.of[kReturnAddress] = 0x1006;
  ASSERT_TRUE(evaluate_expression(linkage, registers, window, nullptr, &value));
  EXPECT_EQ(value, low + 8);
  const uint8_t beyond[] = {4, 0x76, 0x80, 0x01, 0x06};  // the word at rbp + 128: not in the window
  EXPECT_FALSE(evaluate_expression(beyond, registers, window, nullptr, &value));
  const uint8_t unknown[] = {2, 0x73, 0};  // rbx, which is not known
  EXPECT_FALSE(evaluate_expression(unknown, registers, window, nullptr, &value));
}

}  // namespace
}  // namespace llamalloc
