// SPDX-License-Identifier: Apache-2.0
#include "os/function_names.h"

#include <algorithm>
#include <cstring>

#include "base/errno_keeper.h"
#include "base/sort.h"
#include "os/linux/eh_frame.h"
#include "os/linux/symbols_module.h"
#include "os/no_cancel.h"

namespace llamalloc {
namespace {

constexpr size_t kLongestName = 511;  // contracts/stack_tokens.md

// How much of a symbol is the function's name, without its version.
size_t name_length(const char* name) {
  if (*name == 0) return 0;
  const size_t length = strnlen(name, kLongestName);
  const void* const version = memchr(name + 1, '@', length - 1);
  return version != nullptr ? static_cast<size_t>(static_cast<const char*>(version) - name)
                            : length;
}

// A function of a symbol table, above its module's lowest address.
struct Row {
  uint32_t begin;
  uint32_t end;
  uint32_t rank;
  uint32_t name;  // offset in the strings
};

// Which functions of a table are wanted, in order.
class Selection {
 public:
  Selection(const SymbolTable& table, uint64_t low, uint64_t bytes)
      : table_(table), low_(low), bytes_(std::min<uint64_t>(bytes, UINT32_MAX)) {}

  // False: no memory.
  bool select(FunctionNames& visitor, bool all, PageSource& system) {
    if (table_.count == 0) return true;
    mapped_ = align_up(table_.count * sizeof(Row), kSmallPage);
    rows_ = static_cast<Row*>(system.map(mapped_, kSmallPage));
    if (rows_ == nullptr) return false;
    take_if([&](const Row& row) {
      const char* const name = table_.strings + row.name;
      return all || visitor.counts(name, name_length(name));
    });
    order();
    return all || take_what_covers(system);
  }
  void give_to(FunctionNames& visitor) const {
    if (count_ == 0 || !visitor.room_for(count_)) return;
    for (const Row* row = rows_; row != rows_ + count_; ++row) {
      char* const name = table_.strings + row->name;
      const size_t length = name_length(name);
      make_printable(name, length);
      visitor.add(row->begin, row->end, name, length);
    }
  }
  void give_back(PageSource& system) {
    if (rows_ != nullptr) system.unmap(rows_, mapped_);
  }

 private:
  template <typename IsWanted>
  void take_if(IsWanted&& is_wanted) {
    count_ = 0;
    for (size_t i = 0; i < table_.count; ++i) {
      const Elf64_Sym& symbol = table_.symbols[i];
      const uint64_t begin = symbol.st_value - low_;
      if (!is_function(symbol, table_.string_bytes) || begin >= bytes_) continue;
      const uint64_t end = begin + std::min<uint64_t>(symbol.st_size, bytes_ - begin);
      const Row row{static_cast<uint32_t>(begin), static_cast<uint32_t>(end), binding_rank(symbol),
                    symbol.st_name};
      if (is_wanted(row)) rows_[count_++] = row;
    }
  }
  // Those that are there, and all that cover a part of one.
  bool take_what_covers(PageSource& system) {
    const Selection counting = *this;
    uint32_t widest = 0;
    for (size_t i = 0; i < count_; ++i) widest = std::max(widest, rows_[i].end - rows_[i].begin);
    rows_ = static_cast<Row*>(system.map(mapped_, kSmallPage));
    if (rows_ == nullptr) {
      rows_ = counting.rows_;
      return false;
    }
    take_if([&](const Row& row) { return counting.is_met_by(row, widest); });
    system.unmap(counting.rows_, mapped_);
    order();
    return true;
  }
  bool is_met_by(const Row& other, uint32_t widest) const {
    const auto is_below = [](const Row& row, uint32_t value) { return row.begin < value; };
    const Row* row = std::lower_bound(rows_, rows_ + count_, other.end, is_below);
    while (row != rows_) {
      --row;
      if (other.begin >= uint64_t{row->begin} + widest) return false;
      if (other.begin < row->end) return true;
    }
    return false;
  }
  void order() {
    const char* const strings = table_.strings;
    sort_rows(rows_, count_, [strings](const Row& a, const Row& b) {
      if (a.begin != b.begin) return a.begin < b.begin;
      if (a.rank != b.rank) return a.rank < b.rank;
      const size_t x = name_length(strings + a.name), y = name_length(strings + b.name);
      const int by_name = memcmp(strings + a.name, strings + b.name, std::min(x, y));
      return by_name != 0 ? by_name < 0 : x < y;
    });
  }

  const SymbolTable table_;
  const uint64_t low_, bytes_;
  Row* rows_ = nullptr;
  size_t mapped_ = 0, count_ = 0;
};

void add_functions(Symboliser::Module& module, bool all, FunctionNames& visitor,
                   PageSource& system) {
  SymbolTable table;
  bool read = module.copy_table(&table, system);
  Selection selection(table, module.start - module.bias, module.limit - module.start);
  read = read && selection.select(visitor, all, system);
  if (read) selection.give_to(visitor);
  selection.give_back(system);
  unmap_table(table, system);
  visitor.end(read);
}

// Neither the system's own module (vDSO) nor this library, unless it is a part of the program.
bool may_allocate(const Symboliser::Module& module) {
  const bool is_ours = module.contains(reinterpret_cast<uintptr_t>(&visit_function_names));
  return !module.is_vdso && (!is_ours || module.is_main);
}

void visit(const dl_phdr_info& info, Symboliser::Module& module, FunctionNames& visitor,
           PageSource& system) {
  using Want = FunctionNames::Want;
  UnwindModule unwind;
  module = {};
  if (!find_unwind_module(info, &unwind) || !module.describe(info) || !may_allocate(module)) return;
  module.loaded = true;
  const Want want = visitor.wants({unwind.build, module.start - module.bias, module.base_name()});
  if (want != Want::nothing) add_functions(module, want == Want::all, visitor, system);
}

// Not on the stack, of which a thread may have little.
template <typename Work>
void with_module(PageSource& system, Work&& work) {
  const ErrnoKeeper keep;
  const NoCancel here;
  const size_t bytes = align_up(sizeof(Symboliser::Module), kSmallPage);
  void* const memory = system.map(bytes, kSmallPage);
  if (memory == nullptr) return;
  work(*new (memory) Symboliser::Module);
  system.unmap(memory, bytes);
}

// The headers as the file's first page has them, which is mapped.
bool describe(const UnwindModule& module, const dl_find_object& found, dl_phdr_info* out) {
  size_t count;
  const ElfW(Phdr)* const segments =
      segments_in(reinterpret_cast<const void*>(module.start), &count);
  if (segments == nullptr) return false;
  *out = {};
  out->dlpi_addr = found.dlfo_link_map->l_addr;
  out->dlpi_name = found.dlfo_link_map->l_name;
  out->dlpi_phdr = segments;
  out->dlpi_phnum =
      static_cast<ElfW(Half)>(std::min<size_t>(count, Symboliser::Module::kMaxHeaders));
  return true;
}

}  // namespace

void visit_function_names(FunctionNames& visitor, PageSource& system) {
  with_module(system, [&](Symboliser::Module& module) {
    struct Visit {
      Symboliser::Module& module;
      FunctionNames& visitor;
      PageSource& system;
    } all{module, visitor, system};
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* argument) {
          const Visit& of = *static_cast<Visit*>(argument);
          visit(*info, of.module, of.visitor, of.system);
          return 0;
        },
        &all);
  });
}

void visit_function_names_at(uintptr_t return_address, FunctionNames& visitor, PageSource& system) {
  UnwindModule unwind;
  dl_find_object found;
  dl_phdr_info info;
  if (!find_whole_module(return_address - 1, &unwind) ||
      _dl_find_object(reinterpret_cast<void*>(return_address - 1), &found) != 0 ||
      !describe(unwind, found, &info))
    return;
  with_module(system, [&](Symboliser::Module& module) { visit(info, module, visitor, system); });
}

}  // namespace llamalloc
