// SPDX-License-Identifier: Apache-2.0
#include "os/linux/symbols_index.h"

#include <algorithm>
#include <cstring>

#include "base/sort.h"

namespace llamalloc {
namespace {

constexpr uint32_t kMaxBack = 1024;  // functions below an address that may fail to reach it

int binding_rank(const Elf64_Sym& symbol) {
  switch (ELF64_ST_BIND(symbol.st_info)) {
    case STB_LOCAL:
      return 2;
    case STB_WEAK:
      return 1;
    default:
      return 0;  // global, and GNU's unique
  }
}

}  // namespace

bool SymbolIndex::before(uint32_t a, uint32_t b) const {
  const Elf64_Sym x = table_.symbol(a), y = table_.symbol(b);
  if (x.st_value != y.st_value) return x.st_value < y.st_value;
  if (binding_rank(x) != binding_rank(y)) return binding_rank(x) < binding_rank(y);
  const ByteRange p = table_.name(a), q = table_.name(b);
  const int order = memcmp(p.data, q.data, std::min(p.size, q.size));
  if (order != 0) return order < 0;
  return p.size != q.size ? p.size < q.size : a < b;
}

bool SymbolIndex::build(const SymbolTable& table, PageSource& system) {
  table_ = table;
  for (uint32_t i = 0; i < table.count(); ++i) count_ += table.is_function(i);
  if (count_ == 0) return true;
  order_ = static_cast<uint32_t*>(system.map(bytes(), kSmallPage));
  if (order_ == nullptr) return count_ = 0, false;
  uint32_t* end = order_;
  for (uint32_t i = 0; i < table.count(); ++i)
    if (table.is_function(i)) *end++ = i;
  sort_rows(order_, static_cast<size_t>(end - order_),
            [this](uint32_t a, uint32_t b) { return before(a, b); });
  return true;
}

size_t SymbolIndex::bytes() const {
  return align_up(count_ * sizeof(uint32_t), kSmallPage);
}

void SymbolIndex::clear(PageSource& system) {
  if (order_ != nullptr) system.unmap(order_, bytes());
  *this = {};
}

bool SymbolIndex::holds(uint32_t symbol, uint64_t address) const {
  const Elf64_Sym s = table_.symbol(symbol);
  return address - s.st_value < s.st_size;
}

ByteRange SymbolIndex::name_at(uint64_t address) const {
  if (table_.count() == 0) return {};
  const uint32_t* above = std::upper_bound(
      order_, order_ + count_, address,
      [this](uint64_t value, uint32_t i) { return value < table_.symbol(i).st_value; });
  uint32_t end = static_cast<uint32_t>(above - order_);
  for (uint32_t back = 0; end > 0 && back < kMaxBack; ++back) {
    uint32_t first = end - 1;  // of those with the same value
    const uint64_t value = table_.symbol(order_[first]).st_value;
    while (first > 0 && table_.symbol(order_[first - 1]).st_value == value) --first;
    for (uint32_t i = first; i < end; ++i)
      if (holds(order_[i], address)) return table_.name(order_[i]);
    end = first;
  }
  return {};
}

bool SymbolIndex::is_consistent() const {
  for (uint32_t i = 0; i < count_; ++i) {
    if (!table_.is_function(order_[i])) return false;
    if (i > 0 && !before(order_[i - 1], order_[i])) return false;
  }
  return true;
}

}  // namespace llamalloc
