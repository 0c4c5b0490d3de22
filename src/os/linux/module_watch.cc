// SPDX-License-Identifier: Apache-2.0
#include "os/module_watch.h"

#include <link.h>

#include <cstring>

#include "base/units.h"

namespace llamalloc {
namespace {

// FNV-1a; never 0.
uint64_t hash(const uint8_t* bytes, size_t count) {
  uint64_t h = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; ++i) h = (h ^ bytes[i]) * 0x100000001b3;
  return h | 1;
}

// Of a note segment (ELF-64, chapter 5): {name bytes, description bytes, type}, name, description.
uint64_t find_build_id(const uint8_t* note, const uint8_t* end, size_t alignment) {
  while (static_cast<size_t>(end - note) >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    memcpy(&header, note, sizeof(header));
    const size_t name_end = sizeof(header) + header.n_namesz;
    const size_t text = align_up(name_end, alignment);
    const size_t size = align_up(text + header.n_descsz, alignment);
    if (text + header.n_descsz > static_cast<size_t>(end - note)) return 0;
    const bool is_gnu = header.n_namesz == 4 && memcmp(note + sizeof(header), "GNU", 4) == 0;
    if (is_gnu && header.n_type == NT_GNU_BUILD_ID) return hash(note + text, header.n_descsz);
    if (size >= static_cast<size_t>(end - note)) return 0;
    note += size;
  }
  return 0;
}

}  // namespace

bool ModuleWatch::describe(const dl_phdr_info& info, Module* out) {
  *out = {~uintptr_t{0}, 0, 0, 0, 0, 0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& part = info.dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t start = info.dlpi_addr + part.p_vaddr;
    if (start < out->low) out->low = start;
    if (start + part.p_memsz > out->high) out->high = start + part.p_memsz;
  }
  for (int i = 0; i < info.dlpi_phnum && out->build_id == 0; ++i) {
    const auto& part = info.dlpi_phdr[i];
    const uintptr_t start = info.dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_NOTE || start < out->low || start > out->high) continue;
    if (part.p_memsz > out->high - start) continue;
    const auto* note = reinterpret_cast<const uint8_t*>(start);
    out->build_id = find_build_id(note, note + part.p_memsz, part.p_align == 8 ? 8 : 4);
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

// The loader counts under its lock, so that the names and notes that we read stay mapped.
uint8_t ModuleWatch::look() {
  struct Reading {
    ModuleWatch& watch;
    bool changed = false;
    bool unloads = false;
  } reading{*this};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        Reading& r = *static_cast<Reading*>(argument);
        ModuleWatch& watch = r.watch;
        if (!r.changed) {
          if (watch.loads_ == info->dlpi_adds && watch.unloads_ == info->dlpi_subs) return 1;
          r.changed = true;
          r.unloads = watch.unloads_ != info->dlpi_subs;
          watch.loads_ = info->dlpi_adds;
          watch.unloads_ = info->dlpi_subs;
          watch.expected_ = 0;
          ++watch.looks_;
        }
        Module found;
        if (describe(*info, &found)) watch.meet(found, r.unloads);
        return 0;
      },
      &reading);
  if (!reading.changed) return 0;
  const uint8_t gone = drop_unseen();
  return reading.unloads ? static_cast<uint8_t>(gone | kUnknown) : 0;
}

void ModuleWatch::meet(Module found, bool unloads) {
  for (size_t i = 0; i < count_; ++i) {
    const size_t at = (expected_ + i) % count_;
    Module& known = modules_[at];
    const bool same = known.low == found.low && known.high == found.high &&
                      known.build_id == found.build_id && known.seen != looks_;
    if (!same || (unloads && found.build_id == 0 && known.mark != 0)) continue;
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
