// SPDX-License-Identifier: Apache-2.0
#include "os/linux/elf_file.h"

#include <cstring>

#include "base/units.h"

namespace llamalloc {

Elf64_Sym SymbolTable::symbol(uint32_t i) const {
  Elf64_Sym symbol;
  memcpy(&symbol, symbols_.data + size_t{i} * sizeof(symbol), sizeof(symbol));
  return symbol;
}

ByteRange SymbolTable::name(uint32_t i) const {
  const uint32_t offset = symbol(i).st_name;
  if (offset >= strings_.size) return {};
  const uint8_t* start = strings_.data + offset;
  const size_t room = strings_.size - offset;
  const void* end = memchr(start, 0, room);
  if (end == nullptr) return {};
  size_t size = static_cast<size_t>(static_cast<const uint8_t*>(end) - start);
  const void* version = size > 1 ? memchr(start + 1, '@', size - 1) : nullptr;
  if (version != nullptr) size = static_cast<size_t>(static_cast<const uint8_t*>(version) - start);
  return {start, size};
}

bool SymbolTable::is_function(uint32_t i) const {
  const Elf64_Sym s = symbol(i);
  const unsigned type = ELF64_ST_TYPE(s.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && s.st_shndx != SHN_UNDEF &&
         s.st_shndx != SHN_ABS && s.st_size != 0 && s.st_value + s.st_size > s.st_value &&
         name(i).size != 0;
}

ElfFile::ElfFile(ByteRange bytes) : bytes_(bytes) {
  const bool sound = read(0, &header_) && memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
                     header_.e_ident[EI_CLASS] == ELFCLASS64 &&
                     header_.e_ident[EI_DATA] == ELFDATA2LSB;
  if (!sound) bytes_ = {};
  sections_ = header_.e_shentsize == sizeof(Elf64_Shdr) ? header_.e_shnum : 0;
  Elf64_Shdr first;
  // More sections than 16 bits count: the number is in the first one (gABI, e_shnum).
  if (ok() && header_.e_shnum == 0 && header_.e_shoff != 0 && read(header_.e_shoff, &first))
    sections_ = first.sh_size;
  if (sections_ > bytes_.size / sizeof(Elf64_Shdr)) sections_ = 0;
}

ByteRange ElfFile::range(uint64_t offset, uint64_t size) const {
  if (offset > bytes_.size || size > bytes_.size - offset) return {};
  return {bytes_.data + offset, size};
}

template <typename T>
bool ElfFile::read(uint64_t offset, T* out) const {
  const ByteRange from = range(offset, sizeof(T));
  if (from.size == 0) return false;
  memcpy(out, from.data, sizeof(T));
  return true;
}

bool ElfFile::section(uint64_t i, Elf64_Shdr* out) const {
  return i < sections_ && header_.e_shoff <= bytes_.size &&
         read(header_.e_shoff + i * sizeof(Elf64_Shdr), out);
}

SymbolTable ElfFile::table_of_type(uint32_t type) const {
  Elf64_Shdr symbols, strings;
  for (uint64_t i = 0; i < sections_ && section(i, &symbols); ++i) {
    if (symbols.sh_type != type || symbols.sh_entsize != sizeof(Elf64_Sym)) continue;
    if (!section(symbols.sh_link, &strings) || strings.sh_type != SHT_STRTAB) continue;
    const ByteRange rows = range(symbols.sh_offset, symbols.sh_size);
    if (rows.size / sizeof(Elf64_Sym) > UINT32_MAX) continue;
    return {rows, range(strings.sh_offset, strings.sh_size)};
  }
  return {};
}

SymbolTable ElfFile::symbols() const {
  const SymbolTable whole = table_of_type(SHT_SYMTAB);
  for (uint32_t i = 0; i < whole.count(); ++i)
    if (whole.is_function(i)) return whole;
  return table_of_type(SHT_DYNSYM);
}

bool ElfFile::has_program_headers(const Elf64_Phdr* headers, size_t count) const {
  if (!ok() || header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum != count) return false;
  const ByteRange mine = range(header_.e_phoff, count * sizeof(Elf64_Phdr));
  return mine.size != 0 && memcmp(mine.data, headers, mine.size) == 0;
}

ByteRange ElfFile::build_id() const {
  Elf64_Phdr segment;
  if (header_.e_phentsize != sizeof(segment)) return {};
  for (unsigned i = 0; i < header_.e_phnum; ++i) {
    if (header_.e_phoff > bytes_.size || !read(header_.e_phoff + i * sizeof(segment), &segment))
      return {};
    if (segment.p_type != PT_NOTE) continue;
    const ByteRange id = find_build_id(range(segment.p_offset, segment.p_filesz));
    if (id.size != 0) return id;
  }
  return {};
}

ByteRange find_build_id(ByteRange notes) {
  Elf64_Nhdr head;
  while (notes.size >= sizeof(head)) {
    memcpy(&head, notes.data, sizeof(head));
    notes = {notes.data + sizeof(head), notes.size - sizeof(head)};
    const uint64_t name = align_up(head.n_namesz, 4), bytes = align_up(head.n_descsz, 4);
    if (name + bytes > notes.size) return {};
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(notes.data, "GNU", 4) == 0)
      return {notes.data + name, head.n_descsz};
    notes = {notes.data + name + bytes, notes.size - name - bytes};
  }
  return {};
}

}  // namespace llamalloc
