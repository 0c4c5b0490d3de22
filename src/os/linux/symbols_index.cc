// SPDX-License-Identifier: Apache-2.0
#include "os/linux/symbols_index.h"

#include <algorithm>
#include <cstring>

#include "base/sort.h"
#include "base/units.h"

namespace llamalloc {
namespace {

constexpr uint32_t kMaxBack = 1024;  // starts below an address whose functions may not reach it
constexpr uint32_t kLargest = (1 << 30) - 1;
constexpr size_t kChunk = 64;  // bytes of a name that are read at once

// False: not all symbols could be read.
template <typename Visit>
bool visit_functions(const ByteSource& bytes, const SymbolExtents& table, Visit visit) {
  for (uint64_t i = 0; i < table.symbols.size / sizeof(Elf64_Sym); ++i) {
    Elf64_Sym symbol;
    if (!bytes.read(table.symbols.offset + i * sizeof(symbol), &symbol, sizeof(symbol)))
      return false;
    if (is_function(symbol, table.strings.size)) visit(symbol);
  }
  return true;
}

// As memcmp orders them, the shorter one first.
bool is_name_before(const ByteSource& bytes, FileExtent a, FileExtent b) {
  char x[kChunk], y[kChunk];
  const uint64_t common = std::min(a.size, b.size);
  for (uint64_t done = 0; done < common; done += kChunk) {
    const size_t part = std::min<uint64_t>(kChunk, common - done);
    if (!bytes.read(a.offset + done, x, part) || !bytes.read(b.offset + done, y, part))
      return false;
    if (const int order = memcmp(x, y, part); order != 0) return order < 0;
  }
  return a.size < b.size;
}

}  // namespace

uint32_t binding_rank(const Elf64_Sym& symbol) {
  switch (ELF64_ST_BIND(symbol.st_info)) {
    case STB_LOCAL:
      return 2;
    case STB_WEAK:
      return 1;
    default:
      return 0;  // global, and GNU's unique
  }
}

bool is_function(const Elf64_Sym& s, uint64_t strings) {
  const unsigned type = ELF64_ST_TYPE(s.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && s.st_shndx != SHN_UNDEF &&
         s.st_shndx != SHN_ABS && s.st_size != 0 && s.st_value + s.st_size > s.st_value &&
         s.st_name != 0 && s.st_name < strings;
}

bool SymbolIndex::before(const Row& a, const Row& b) {
  return a.start != b.start ? a.start < b.start : a.rank < b.rank;
}

bool SymbolIndex::build(const ByteSource& bytes, const SymbolExtents& table, PageSource& system) {
  strings_ = table.strings;
  low_ = UINT64_MAX;
  const auto count = [this](const Elf64_Sym& symbol) {
    ++room_;
    low_ = std::min(low_, symbol.st_value);
  };
  if (!visit_functions(bytes, table, count)) return *this = {}, true;
  if (room_ == 0) return true;
  rows_ = static_cast<Row*>(system.map(mapped_bytes(), kSmallPage));
  if (rows_ == nullptr) return *this = {}, false;
  const auto add = [this](const Elf64_Sym& symbol) {
    const uint64_t start = symbol.st_value - low_;
    if (count_ == room_ || start > UINT32_MAX) return;
    rows_[count_++] = {
        .start = static_cast<uint32_t>(start),
        .rank = binding_rank(symbol) & 3,
        .size = static_cast<uint32_t>(std::min<uint64_t>(symbol.st_size, kLargest)) & kLargest,
        .name = symbol.st_name};
  };
  if (!visit_functions(bytes, table, add)) return clear(system), true;
  sort_rows(rows_, count_, before);
  return true;
}

size_t SymbolIndex::mapped_bytes() const {
  return align_up(room_ * sizeof(Row), kSmallPage);
}

void SymbolIndex::clear(PageSource& system) {
  if (rows_ != nullptr) system.unmap(rows_, mapped_bytes());
  *this = {};
}

// Of size 0 if it does not end in the strings.
FileExtent SymbolIndex::name_of(const ByteSource& bytes, const Row& row) const {
  FileExtent name{strings_.offset + row.name, 0};
  bool is_cut = false;
  for (uint64_t done = row.name; done < strings_.size; done += kChunk) {
    char chunk[kChunk];
    const size_t part = std::min<uint64_t>(kChunk, strings_.size - done);
    if (!bytes.read(strings_.offset + done, chunk, part)) return {};
    for (size_t i = 0; i < part; ++i) {
      if (chunk[i] == 0) return name;
      is_cut = is_cut || (chunk[i] == '@' && name.size != 0);
      name.size += !is_cut;
    }
  }
  return {};
}

// The name of the first of these rows, all with one start, that hold the place. Functions that the
// linker folded may have thousands of names: those of one size get the answer's, for the next time.
FileExtent SymbolIndex::first_name(const ByteSource& bytes, Row* from, const Row* to,
                                   uint32_t at) const {
  FileExtent best;
  const Row* found = nullptr;
  Row* row = from;
  for (; row != to && (found == nullptr || row->rank == found->rank); ++row) {
    if (at - row->start >= row->size || (found != nullptr && row->name == found->name)) continue;
    const FileExtent name = name_of(bytes, *row);
    if (name.size == 0 || (found != nullptr && !is_name_before(bytes, name, best))) continue;
    best = name;
    found = row;
  }
  if (found == nullptr) return {};
  for (Row* alias = from; alias != row; ++alias)
    if (alias->rank == found->rank && alias->size == found->size) alias->name = found->name;
  return best;
}

FileExtent SymbolIndex::name_at(const ByteSource& bytes, uint64_t address) const {
  if (count_ == 0 || address < low_ || address - low_ > UINT32_MAX) return {};
  const uint32_t at = static_cast<uint32_t>(address - low_);
  const auto is_below = [](uint32_t value, const Row& row) { return value < row.start; };
  Row* end = std::upper_bound(rows_, rows_ + count_, at, is_below);
  for (uint32_t back = 0; end > rows_ && back < kMaxBack; ++back) {
    Row* first = end - 1;
    while (first > rows_ && first[-1].start == first->start) --first;
    const FileExtent name = first_name(bytes, first, end, at);
    if (name.size != 0) return name;
    end = first;
  }
  return {};
}

bool SymbolIndex::is_consistent() const {
  for (uint32_t i = 1; i < count_; ++i)
    if (before(rows_[i], rows_[i - 1])) return false;
  return true;
}

}  // namespace llamalloc
