// SPDX-License-Identifier: Apache-2.0
#include "os/module_watch.h"

#include "os/linux/elf_file.h"
#include "os/linux/loaded_modules.h"
#include "os/linux/own_memory.h"

namespace llamalloc {

// The file may be shorter by now: what the loader points to is copied by a call that may fail.
bool ModuleWatch::describe(const dl_phdr_info& info, Module* out) {
  *out = {};
  out->low = ~uintptr_t{0};
  const auto read = [&](int i, ElfW(Phdr) * part) {
    return read_own_memory(reinterpret_cast<uintptr_t>(&info.dlpi_phdr[i]), part, sizeof(*part));
  };
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    ElfW(Phdr) part;
    if (!read(i, &part)) return false;
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t start = info.dlpi_addr + part.p_vaddr;
    if (start < out->low) out->low = start;
    if (start + part.p_memsz > out->high) out->high = start + part.p_memsz;
  }
  for (int i = 0; i < info.dlpi_phnum && out->build_id.size == 0; ++i) {
    ElfW(Phdr) part;
    if (!read(i, &part)) return false;
    const uintptr_t start = info.dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_NOTE || start < out->low || start > out->high) continue;
    if (part.p_memsz > out->high - start) continue;
    const LoadedBytes notes(start, part.p_memsz);
    out->build_id = find_build_id(notes, {0, part.p_memsz}, part.p_align);
  }
  return out->low < out->high;
}

bool ModuleWatch::open(MetadataArena& arena) {
  modules_ = arena.make_array<Module>(kMost);
  if (modules_ == nullptr) return false;
  look();
  for (size_t i = 0; i < count_; ++i) modules_[i].mark = 0;
  later_ = 0;
  return true;
}

uint8_t ModuleWatch::look() {
  const uint64_t unloads_before = counts_.unloads;
  bool unloads = false;
  const auto start = [&] {
    unloads = counts_.unloads != unloads_before;
    expected_ = 0;
    ++looks_;
  };
  const auto visit = [&](const dl_phdr_info& info) {
    Module found;
    if (describe(info, &found)) meet(found, unloads);
  };
  if (!read_changed_modules(counts_, start, visit)) return 0;
  const uint8_t gone = drop_unseen();
  return unloads ? static_cast<uint8_t>(gone | kUnknown) : 0;
}

void ModuleWatch::meet(Module& found, bool unloads) {
  for (size_t i = 0; i < count_; ++i) {
    const size_t at = (expected_ + i) % count_;
    Module& known = modules_[at];
    const bool same = known.low == found.low && known.high == found.high &&
                      known.build_id == found.build_id && known.seen != looks_;
    if (!same || (unloads && found.build_id.size == 0 && known.mark != 0)) continue;
    known.seen = looks_;
    expected_ = at + 1;
    return;
  }
  if (count_ == kMost) return;
  found.born = found.seen = looks_;
  found.mark = static_cast<uint8_t>(2u << later_++ % 7);
  modules_[count_++] = found;
}

uint8_t ModuleWatch::drop_unseen() {
  uint8_t gone = 0;
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (modules_[i].seen == looks_)
      modules_[kept++] = modules_[i];
    else
      gone |= modules_[i].mark;
  }
  count_ = kept;
  return gone;
}

const ModuleWatch::Module* ModuleWatch::find(uintptr_t return_address) const {
  const uintptr_t address = return_address - 1;
  for (size_t i = 0; i < count_; ++i)
    if (address - modules_[i].low < modules_[i].high - modules_[i].low) return &modules_[i];
  return nullptr;
}

uint8_t ModuleWatch::mark_of(uintptr_t return_address) const {
  const Module* module = find(return_address);
  return module != nullptr ? module->mark : kUnknown;
}

bool ModuleWatch::stayed(uintptr_t return_address) const {
  const Module* module = find(return_address);
  return module != nullptr && (module->born < looks_ || module->mark == 0);
}

bool ModuleWatch::is_consistent() const {
  if (count_ > kMost) return false;
  for (size_t i = 0; i < count_; ++i) {
    const Module& m = modules_[i];
    if (m.low >= m.high || m.born > m.seen || m.seen != looks_) return false;
    if ((m.mark & (m.mark - 1)) != 0 || m.mark == kUnknown) return false;
    for (size_t j = 0; j < i; ++j)
      if (m.low < modules_[j].high && modules_[j].low < m.high) return false;
  }
  return true;
}

}  // namespace llamalloc
