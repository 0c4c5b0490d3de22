// SPDX-License-Identifier: Apache-2.0
#include "os/linux/elf_file.h"

#include <cstring>

#include "base/units.h"

namespace llamalloc {

bool MemoryBytes::read(uint64_t offset, void* out, size_t bytes) const {
  if (!holds(offset, bytes)) return false;
  if (bytes != 0) memcpy(out, data_ + offset, bytes);
  return true;
}

ElfFile::ElfFile(const ByteSource& bytes) : bytes_(bytes) {
  ok_ = bytes_.read(0, &header_, sizeof(header_)) &&
        memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 && header_.e_ident[EI_CLASS] == ELFCLASS64 &&
        header_.e_ident[EI_DATA] == ELFDATA2LSB;
  if (!ok_) return;
  sections_ = header_.e_shentsize == sizeof(Elf64_Shdr) ? header_.e_shnum : 0;
  Elf64_Shdr first;
  // More sections than 16 bits count: the number is in the first one (gABI, e_shnum).
  if (header_.e_shnum == 0 && header_.e_shoff != 0 &&
      bytes_.read(header_.e_shoff, &first, sizeof(first)))
    sections_ = first.sh_size;
  if (sections_ > bytes_.size() / sizeof(Elf64_Shdr)) sections_ = 0;
}

bool ElfFile::section(uint64_t i, Elf64_Shdr* out) const {
  return i < sections_ && header_.e_shoff <= bytes_.size() &&
         bytes_.read(header_.e_shoff + i * sizeof(Elf64_Shdr), out, sizeof(*out));
}

bool ElfFile::is_inside(const Elf64_Shdr& section) const {
  return section.sh_offset <= bytes_.size() && section.sh_size <= bytes_.size() - section.sh_offset;
}

bool ElfFile::find_symbols(uint32_t type, SymbolExtents* out) const {
  Elf64_Shdr symbols, strings;
  for (uint64_t i = 0; i < sections_ && section(i, &symbols); ++i) {
    if (symbols.sh_type != type || symbols.sh_entsize != sizeof(Elf64_Sym)) continue;
    if (!section(symbols.sh_link, &strings) || strings.sh_type != SHT_STRTAB) continue;
    if (!is_inside(symbols) || !is_inside(strings)) continue;
    if (symbols.sh_size / sizeof(Elf64_Sym) > UINT32_MAX) continue;
    *out = {{symbols.sh_offset, symbols.sh_size}, {strings.sh_offset, strings.sh_size}};
    return true;
  }
  return false;
}

bool ElfFile::has_program_headers(const Elf64_Phdr* headers, size_t count) const {
  if (!ok() || header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum != count) return false;
  Elf64_Phdr mine;
  for (size_t i = 0; i < count; ++i)
    if (header_.e_phoff > bytes_.size() ||
        !bytes_.read(header_.e_phoff + i * sizeof(mine), &mine, sizeof(mine)) ||
        memcmp(&mine, &headers[i], sizeof(mine)) != 0)
      return false;
  return count != 0;
}

BuildId ElfFile::build_id() const {
  Elf64_Phdr segment;
  if (!ok() || header_.e_phentsize != sizeof(segment)) return {};
  for (unsigned i = 0; i < header_.e_phnum; ++i) {
    if (header_.e_phoff > bytes_.size() ||
        !bytes_.read(header_.e_phoff + i * sizeof(segment), &segment, sizeof(segment)))
      return {};
    if (segment.p_type != PT_NOTE) continue;
    const BuildId id = find_build_id(bytes_, {segment.p_offset, segment.p_filesz}, segment.p_align);
    if (id.size != 0) return id;
  }
  return {};
}

// A note (ELF-64, chapter 5) is {name bytes, description bytes, type}, name, description. Both
// start at multiples of 8 in a segment that is aligned so, at multiples of 4 in all others.
BuildId find_build_id(const ByteSource& bytes, FileExtent notes, uint64_t alignment) {
  struct {
    Elf64_Nhdr head;
    char name[4];
  } note;
  static_assert(sizeof(note) % 8 == 0, "the description follows in either alignment");
  const size_t step = alignment == 8 ? 8 : 4;
  if (notes.offset > bytes.size() || notes.size > bytes.size() - notes.offset) return {};
  while (notes.size >= sizeof(note) && bytes.read(notes.offset, &note, sizeof(note))) {
    const uint64_t text = align_up(sizeof(note.head) + note.head.n_namesz, step);
    if (text + note.head.n_descsz > notes.size) return {};
    BuildId id;
    if (note.head.n_type == NT_GNU_BUILD_ID && note.head.n_namesz == sizeof(note.name) &&
        memcmp(note.name, "GNU", 4) == 0 && note.head.n_descsz <= sizeof(id.data)) {
      id.size = static_cast<uint8_t>(note.head.n_descsz);
      return bytes.read(notes.offset + text, id.data, id.size) ? id : BuildId{};
    }
    const uint64_t whole = align_up(text + note.head.n_descsz, step);
    if (whole > notes.size) return {};
    notes = {notes.offset + whole, notes.size - whole};
  }
  return {};
}

}  // namespace llamalloc
