// SPDX-License-Identifier: Apache-2.0
#include "os/c_library_names.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/errno_keeper.h"
#include "base/units.h"
#include "os/module_range.h"

namespace llamalloc {
namespace {

// The dynamic symbols of a module with a DT_GNU_HASH table:
//   {buckets, first symbol in the table, bloom words, bloom shift}, bloom, buckets, chains
// A bucket holds the index of its first symbol; a chain, parallel to the symbols, holds hashes
// whose lowest bit marks the last one of the bucket.
class DynamicSymbols {
 public:
  explicit DynamicSymbols(const Elf64_Dyn* dynamic) {
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
      if (dynamic->d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<Elf64_Sym*>(dynamic->d_un.d_ptr);
      if (dynamic->d_tag == DT_STRTAB) strings_ = reinterpret_cast<char*>(dynamic->d_un.d_ptr);
      if (dynamic->d_tag == DT_GNU_HASH) hash_ = reinterpret_cast<uint32_t*>(dynamic->d_un.d_ptr);
    }
  }
  bool ok() const { return symbols_ != nullptr && strings_ != nullptr && hash_ != nullptr; }

  // f(symbol) for every version of the name that is defined.
  template <typename F>
  void for_each(const char* name, F&& f) const {
    uint32_t hash = 5381;
    for (const char* c = name; *c != 0; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
    const uint32_t first = hash_[1];
    const uint32_t* buckets = hash_ + 4 + 2 * hash_[2];
    const uint32_t* chains = buckets + hash_[0];
    uint32_t i = buckets[hash % hash_[0]];
    if (i < first) return;
    do {
      const bool same = (chains[i - first] | 1) == (hash | 1);
      if (same && strcmp(strings_ + symbols_[i].st_name, name) == 0) f(&symbols_[i]);
    } while ((chains[i++ - first] & 1) == 0);
  }

 private:
  Elf64_Sym* symbols_ = nullptr;
  const char* strings_ = nullptr;
  const uint32_t* hash_ = nullptr;
};

struct Span {
  uintptr_t low = ~uintptr_t{0};
  uintptr_t high = 0;
  int protection = 0;
};

bool holds(const dl_phdr_info& info, const Elf64_Phdr& part, uintptr_t address) {
  return part.p_type == PT_LOAD && address - (info.dlpi_addr + part.p_vaddr) < part.p_memsz;
}

const Elf64_Phdr* part_with(const dl_phdr_info& info, uintptr_t address) {
  for (int i = 0; i < info.dlpi_phnum; ++i)
    if (holds(info, info.dlpi_phdr[i], address)) return &info.dlpi_phdr[i];
  return nullptr;
}

const Elf64_Dyn* dynamic_section(const dl_phdr_info& info) {
  for (int i = 0; i < info.dlpi_phnum; ++i)
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
      return reinterpret_cast<const Elf64_Dyn*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
  return nullptr;
}

struct Replacement {
  const ReplacedName* names;
  size_t count;
  bool done = false;

  // f(symbol, ours)
  template <typename F>
  void for_each(const DynamicSymbols& symbols, F&& f) const {
    for (size_t i = 0; i < count; ++i)
      symbols.for_each(names[i].name, [&](Elf64_Sym* symbol) { f(symbol, names[i].ours); });
  }
};

// The pages of all that will be written.
Span pages_of(const Replacement& replacement, const DynamicSymbols& symbols,
              const dl_phdr_info& info) {
  Span span;
  replacement.for_each(symbols, [&](const Elf64_Sym* symbol, void (*)()) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(symbol);
    if (address < span.low) span.low = address & ~(kSmallPage - 1);
    if (address + sizeof(*symbol) > span.high)
      span.high = align_up(address + sizeof(*symbol), kSmallPage);
  });
  const Elf64_Phdr* part = span.high != 0 ? part_with(info, span.low) : nullptr;
  if (part == nullptr) return {};
  if ((part->p_flags & PF_R) != 0) span.protection |= PROT_READ;
  if ((part->p_flags & PF_W) != 0) span.protection |= PROT_WRITE;
  if ((part->p_flags & PF_X) != 0) span.protection |= PROT_EXEC;
  return span;
}

// A value is one aligned word, which other threads may read meanwhile: they get one or the other.
bool replace(const Replacement& replacement, const dl_phdr_info& info) {
  const Elf64_Dyn* dynamic = dynamic_section(info);
  if (dynamic == nullptr) return false;
  const DynamicSymbols symbols(dynamic);
  if (!symbols.ok()) return false;
  const Span span = pages_of(replacement, symbols, info);
  void* start = reinterpret_cast<void*>(span.low);
  if (span.protection == 0) return false;
  if (mprotect(start, span.high - span.low, span.protection | PROT_WRITE) != 0) return false;
  replacement.for_each(symbols, [&](Elf64_Sym* symbol, void (*ours)()) {
    const uintptr_t value = reinterpret_cast<uintptr_t>(ours) - info.dlpi_addr;
    std::atomic_ref(symbol->st_value).store(value, std::memory_order_relaxed);
  });
  mprotect(start, span.high - span.low, span.protection);
  return true;
}

}  // namespace

bool replace_c_library_names(const ReplacedName* names, size_t count) {
  const ErrnoKeeper keep;
  Replacement replacement{names, count};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        auto& wanted = *static_cast<Replacement*>(argument);
        if (part_with(*info, c_library_code()) == nullptr) return 0;
        wanted.done = replace(wanted, *info);
        return 1;
      },
      &replacement);
  return replacement.done;
}

}  // namespace llamalloc
