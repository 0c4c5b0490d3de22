// SPDX-License-Identifier: Apache-2.0
#include "os/linux/symbols_module.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/units.h"
#include "os/descriptor.h"

namespace llamalloc {
namespace {

constexpr size_t kMaxFile = size_t{8} << 30;

void copy_path(const char* from, char (&to)[sizeof(ModuleInfo::path)]) {
  const size_t length = strnlen(from, sizeof(to) - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

void main_program_path(char (&to)[sizeof(ModuleInfo::path)]) {
  static constexpr char kDeleted[] = " (deleted)";
  const ssize_t n = readlink("/proc/self/exe", to, sizeof(to) - 1);
  to[n > 0 ? n : 0] = 0;
  const size_t length = strlen(to), suffix = sizeof(kDeleted) - 1;
  if (length > suffix && memcmp(to + length - suffix, kDeleted, suffix) == 0)
    to[length - suffix] = 0;
}

// The whole file, mapped for good; empty where it cannot be.
ByteRange map_file(const char* path) {
  const int fd = off_standard(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd < 0) return {};
  struct stat status;
  ByteRange bytes;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
      static_cast<size_t>(status.st_size) <= kMaxFile) {
    bytes.size = static_cast<size_t>(status.st_size);
    void* memory = mmap(nullptr, bytes.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory == MAP_FAILED) bytes.size = 0;
    bytes.data = bytes.size != 0 ? static_cast<const uint8_t*>(memory) : nullptr;
  }
  close(fd);
  return bytes;
}

void unmap(ByteRange bytes) {
  if (bytes.size != 0) munmap(const_cast<uint8_t*>(bytes.data), bytes.size);
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

bool Symboliser::Module::describe(const dl_phdr_info& info) {
  bias = info.dlpi_addr;
  header_count = info.dlpi_phnum < kMaxHeaders ? info.dlpi_phnum : kMaxHeaders;
  memcpy(headers, info.dlpi_phdr, static_cast<size_t>(header_count) * sizeof(Elf64_Phdr));
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
  if (low >= high) return false;
  start = bias + low;
  limit = bias + high;
  is_vdso = start == getauxval(AT_SYSINFO_EHDR);
  is_main = info.dlpi_name == nullptr || info.dlpi_name[0] == 0;
  if (is_main)
    main_program_path(path);
  else
    copy_path(info.dlpi_name, path);
  for (int i = 0; i < header_count && build_id_bytes == 0; ++i) {
    if (headers[i].p_type != PT_NOTE || !is_mapped(headers[i])) continue;
    const uint8_t* notes = reinterpret_cast<const uint8_t*>(bias + headers[i].p_vaddr);
    const ByteRange id = find_build_id({notes, headers[i].p_memsz});
    if (id.size == 0 || id.size > sizeof(build_id)) continue;
    memcpy(build_id, id.data, id.size);
    build_id_bytes = static_cast<uint8_t>(id.size);
  }
  return true;
}

bool Symboliser::Module::is_same_file(const Module& other) const {
  return header_count == other.header_count && build_id_bytes == other.build_id_bytes &&
         is_main == other.is_main && is_vdso == other.is_vdso && strcmp(path, other.path) == 0 &&
         memcmp(build_id, other.build_id, build_id_bytes) == 0 &&
         memcmp(headers, other.headers, static_cast<size_t>(header_count) * sizeof(Elf64_Phdr)) ==
             0;
}

void Symboliser::Module::open(MetadataArena& arena) {
  if (opened) return;
  opened = true;
  const ByteRange bytes = is_vdso
                              ? ByteRange{reinterpret_cast<const uint8_t*>(start), limit - start}
                              : map_file(is_main ? "/proc/self/exe" : path);
  const ElfFile elf(bytes);
  const ByteRange id = elf.build_id();
  // The vDSO's headers are in the kernel's image itself; other files may have been replaced.
  const bool same = elf.ok() && elf.has_program_headers(headers, header_count) &&
                    id.size == build_id_bytes &&
                    (id.size == 0 || memcmp(id.data, build_id, id.size) == 0);
  const bool usable = same && index.build(elf.symbols(), arena);
  if (is_vdso) return;
  if (usable)
    file = bytes;
  else
    unmap(bytes);
}

const char* Symboliser::Module::base_name() const {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

}  // namespace llamalloc
