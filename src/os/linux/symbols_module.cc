// SPDX-License-Identifier: Apache-2.0
#include "os/linux/symbols_module.h"

#include <sys/auxv.h>

#include <cstring>

#include "base/units.h"
#include "os/linux/eh_frame.h"
#include "os/linux/own_memory.h"
#include "os/path.h"

namespace llamalloc {
namespace {

void copy_path(const char* from, char (&to)[sizeof(ModuleInfo::path)]) {
  const size_t length = strnlen(from, sizeof(to) - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

}  // namespace

bool Symboliser::Module::is_mapped(const Elf64_Phdr& part) const {
  for (int i = 0; i < header_count; ++i) {
    const Elf64_Phdr& h = headers[i];
    if (h.p_type == PT_LOAD && part.p_vaddr >= h.p_vaddr && part.p_memsz <= h.p_filesz &&
        part.p_vaddr - h.p_vaddr <= h.p_filesz - part.p_memsz)
      return true;
  }
  return false;
}

// The file may be shorter by now: what the loader points to is copied by a call that may fail.
bool Symboliser::Module::describe(const dl_phdr_info& info) {
  bias = info.dlpi_addr;
  header_count = info.dlpi_phnum < kMaxHeaders ? info.dlpi_phnum : kMaxHeaders;
  if (!read_own_memory(reinterpret_cast<uintptr_t>(info.dlpi_phdr), headers,
                       static_cast<size_t>(header_count) * sizeof(Elf64_Phdr)))
    return false;
  find_segments();
  if (start >= limit) return false;
  is_vdso = start == getauxval(AT_SYSINFO_EHDR);
  is_main = info.dlpi_name == nullptr || info.dlpi_name[0] == 0;
  if (is_main)
    program_path(path, sizeof(path));
  else
    copy_path(info.dlpi_name, path);
  read_build_id();
  image = read_image();
  return true;
}

void Symboliser::Module::find_segments() {
  uintptr_t low = ~uintptr_t{0}, high = 0;
  for (int i = 0; i < header_count; ++i) {
    const Elf64_Phdr& h = headers[i];
    if (h.p_type != PT_LOAD || h.p_memsz == 0) continue;
    const uintptr_t from = align_down(h.p_vaddr, kSmallPage);
    const uintptr_t to = align_up(h.p_vaddr + h.p_memsz, kSmallPage);
    if (from < low) low = from;
    if (to > high) high = to;
    if ((h.p_flags & PF_X) != 0 && code_count < kCodeSegments)
      code[code_count++] = {from, to, align_down(h.p_offset, kSmallPage)};
  }
  if (low >= high) return;
  start = bias + low;
  limit = bias + high;
}

void Symboliser::Module::read_build_id() {
  for (int i = 0; i < header_count && build_id.size == 0; ++i) {
    if (headers[i].p_type != PT_NOTE || !is_mapped(headers[i])) continue;
    const LoadedBytes notes(bias + headers[i].p_vaddr, headers[i].p_memsz);
    build_id = find_build_id(notes, {0, notes.size()}, headers[i].p_align);
  }
}

// As the unwinder forms it, from the first page and the table's ends.
uint64_t Symboliser::Module::read_image() const {
  if (!is_there(start)) return 0;
  for (int i = 0; i < header_count; ++i) {
    const Elf64_Phdr& h = headers[i];
    if (h.p_type != PT_GNU_EH_FRAME || h.p_memsz == 0) continue;
    const uintptr_t table = bias + h.p_vaddr;
    UnwindModule module;
    const bool found =
        is_there(table) && is_there(table + h.p_memsz - 1) && find_unwind_module(table, &module);
    return found ? module.identity : 0;
  }
  return 0;
}

void Symboliser::Module::read_late_image() {
  auto work = [this] { image = read_image(); };
  with_modules_held(work);
}

bool Symboliser::Module::is_same(const Module& other) const {
  return bias == other.bias && header_count == other.header_count && image == other.image &&
         build_id == other.build_id && is_main == other.is_main && is_vdso == other.is_vdso &&
         strcmp(path, other.path) == 0 &&
         memcmp(headers, other.headers, static_cast<size_t>(header_count) * sizeof(Elf64_Phdr)) ==
             0;
}

size_t Symboliser::Module::name_at(uint64_t address, char* out, size_t room, PageSource& system) {
  if (is_vdso) {
    const ByteRange bytes{reinterpret_cast<const uint8_t*>(start), limit - start};
    return file.name_in(bytes, address, out, room, system);
  }
  return file.name_at(loaded_file(), address, out, room, system);
}

const char* Symboliser::Module::base_name() const {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

}  // namespace llamalloc
