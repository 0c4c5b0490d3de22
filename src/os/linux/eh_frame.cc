// SPDX-License-Identifier: Apache-2.0
#include "os/linux/eh_frame.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstring>

#include "base/code_key.h"
#include "base/units.h"
#include "os/linux/eh_frame_reader.h"
#include "os/linux/elf_file.h"
#include "os/linux/own_memory.h"

namespace llamalloc {
namespace {

// The start of a .eh_frame_hdr in the only layout linkers write: pc-relative 4-byte pointer to
// .eh_frame, 4-byte count, then `count` rows sorted by function, both relative to the header.
struct IndexHeader {
  uint8_t version;
  uint8_t pointer_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  int32_t frames;
  uint32_t count;
};
struct IndexRow {
  int32_t function;
  int32_t entry;
};
static_assert(sizeof(IndexHeader) == 12 && sizeof(IndexRow) == 8);

struct Range {
  uintptr_t start = 0;
  uintptr_t limit = 0;
  bool contains(uintptr_t address) const { return address - start < limit - start; }
};

// Of the program itself, if there are gaps between its segments: nothing is mapped there, so its
// tables can be read in one segment only. Every thread would write the same.
struct Gaps {
  static constexpr uintptr_t kNone = 1;
  std::atomic<uintptr_t> module{0};  // where it starts; 0: not known yet
  std::atomic<uintptr_t> start{0}, limit{0};
};
constinit Gaps gaps;

Range tables_of(const UnwindModule& module) {
  if (module.start != gaps.module.load(std::memory_order_acquire) || module.start == 0)
    return {module.start, module.limit};
  return {gaps.start.load(std::memory_order_relaxed), gaps.limit.load(std::memory_order_relaxed)};
}

// The rows, or null where the header is of another layout or overruns the tables.
const uint8_t* index_rows(const UnwindModule& module, uint32_t* count) {
  const Range tables = tables_of(module);
  const uintptr_t at = reinterpret_cast<uintptr_t>(module.index);
  if (!tables.contains(at) || tables.limit - at < sizeof(IndexHeader)) return nullptr;
  IndexHeader header;
  memcpy(&header, module.index, sizeof(header));
  if (header.version != 1 || header.pointer_encoding != 0x1b || header.count_encoding != 0x03 ||
      header.table_encoding != 0x3b)
    return nullptr;
  if (header.count == 0 || header.count > (tables.limit - at - sizeof(header)) / sizeof(IndexRow))
    return nullptr;
  *count = header.count;
  return module.index + sizeof(header);
}

IndexRow index_row(const uint8_t* rows, uint32_t i) {
  IndexRow row;
  memcpy(&row, rows + size_t{i} * sizeof(row), sizeof(row));
  return row;
}

struct Mixer {
  uint64_t value = 0x9E3779B97F4A7C15ull;
  void add(uint64_t word) {
    value = (value ^ word) * 0xFF51AFD7ED558CCDull;
    value ^= value >> 32;
  }
};

constexpr size_t kFirstPage = 4096;  // of a module: always mapped

// What the ELF header and the notes say of the file, as far as they lie in the module's first page
// (linkers put them there): the hash of its build-id; 0, and the header mixed in: it has none
// there.
uint64_t read_first_page(const uint8_t* page, Mixer* mixer) {
  const ElfW(Ehdr)& header = *reinterpret_cast<const ElfW(Ehdr)*>(page);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  mixer->add(header.e_shoff);
  if (header.e_phoff > kFirstPage || header.e_phoff % 8 != 0 ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    return 0;
  const uint8_t* end = page + kFirstPage;
  const uint8_t* at = page + header.e_phoff;
  for (int i = 0; i < header.e_phnum && end - at >= (ptrdiff_t)sizeof(ElfW(Phdr)); ++i) {
    const ElfW(Phdr)* segment = reinterpret_cast<const ElfW(Phdr)*>(at);
    at += sizeof(*segment);
    if (segment->p_type != PT_NOTE || segment->p_offset > kFirstPage) continue;
    const uint64_t room = kFirstPage - segment->p_offset;
    const uint64_t bytes = segment->p_filesz < room ? segment->p_filesz : room;
    const MemoryBytes notes({page + segment->p_offset, bytes});
    const BuildId id = find_build_id(notes, {0, bytes}, segment->p_align);
    if (id.size != 0) return hash_build_id(id.data, id.size);
  }
  return 0;
}

// The CIE at `at`: fills what entries share. False: not one we can read.
bool read_cie(const uint8_t* at, const uint8_t* limit, FrameEntry* out, bool* has_sizes) {
  EhReader head(at, limit);
  const uint32_t length = head.read<uint32_t>();
  if (!head.ok() || length >= 0xfffffff0 || length > limit - head.at()) return false;
  EhReader reader(head.at(), head.at() + length);
  const uint32_t id = reader.read<uint32_t>();
  const uint8_t version = reader.read<uint8_t>();
  if (id != 0 || (version != 1 && version != 3)) return false;
  const uint8_t* augmentation = reader.at();
  while (reader.read<uint8_t>() != 0) {
  }
  out->code_align = reader.uleb();
  out->data_align = reader.sleb();
  const uint64_t return_register = version == 1 ? reader.read<uint8_t>() : reader.uleb();
  if (!reader.ok() || return_register >= kFrameRegisters) return false;
  out->return_register = static_cast<uint8_t>(return_register);
  out->initial_end = head.at() + length;
  *has_sizes = *augmentation == 'z';
  if (*has_sizes) {
    const uint64_t size = reader.uleb();
    EhReader data = reader;
    reader.skip(size);
    for (const uint8_t* c = augmentation + 1; *c != 0; ++c) {
      if (*c == 'R') {
        out->encoding = data.read<uint8_t>();
      } else if (*c == 'P') {
        const uint8_t encoding = data.read<uint8_t>();
        if ((encoding & 0x70) == 0x50) return false;
        data.fixed(encoding & 0x0f);
      } else if (*c == 'L') {
        data.read<uint8_t>();
      } else if (*c == 'S') {
        out->signal_frame = true;
      } else if (*c != 'B') {
        return false;
      }
    }
    if (!data.ok()) return false;
  } else if (*augmentation != 0) {
    return false;
  }
  out->initial = reader.at();
  return reader.ok();
}

bool read_entry(const UnwindModule& module, uintptr_t at, FrameEntry* out) {
  const Range tables = tables_of(module);
  if (!tables.contains(at)) return false;
  const uint8_t* limit = reinterpret_cast<const uint8_t*>(tables.limit);
  EhReader head(reinterpret_cast<const uint8_t*>(at), limit);
  const uint32_t length = head.read<uint32_t>();
  if (!head.ok() || length >= 0xfffffff0 || length > limit - head.at()) return false;
  const uintptr_t cie_from = reinterpret_cast<uintptr_t>(head.at());
  EhReader reader(head.at(), head.at() + length);
  const uint32_t distance = reader.read<uint32_t>();
  if (!reader.ok() || distance == 0 || distance > cie_from - tables.start) return false;
  bool has_sizes;
  if (!read_cie(reinterpret_cast<const uint8_t*>(cie_from - distance), limit, out, &has_sizes))
    return false;
  out->begin = reader.pointer(out->encoding);
  out->end = out->begin + reader.fixed(out->encoding & 0x0f);
  if (has_sizes) reader.skip(reader.uleb());
  out->program = reader.at();
  out->program_end = head.at() + length;
  return reader.ok();
}

struct ModuleHashes {
  uint64_t build = 0;  // of its build-id, else of its shape
  uint64_t shape = 0;
};

ModuleHashes hashes_of(const UnwindModule& module) {
  Mixer shape;
  ModuleHashes hashes;
  shape.add(module.limit - module.start);
  shape.add(reinterpret_cast<uintptr_t>(module.index) - module.start);
  if (module.start % kFirstPage == 0 && module.limit - module.start >= kFirstPage)
    hashes.build = read_first_page(reinterpret_cast<const uint8_t*>(module.start), &shape);
  uint32_t count;
  if (const uint8_t* rows = index_rows(module, &count)) {
    const IndexRow last = index_row(rows, count - 1);
    shape.add(uint64_t{count} << 32 | static_cast<uint32_t>(last.entry));
    shape.add(static_cast<uint32_t>(last.function));  // moves where one before it grows
  }
  hashes.shape = shape.value;
  if (hashes.build == 0) hashes.build = shape.value;
  return hashes;
}

uint64_t identity_of(const ModuleHashes& hashes, uintptr_t start) {
  Mixer mixer;
  mixer.add(hashes.build);
  mixer.add(hashes.shape);
  mixer.add(start);
  return mixer.value;
}

// The program itself, if there are gaps between its segments, as where its code lies on huge pages
// (-z max-page-size): the loader then names the one segment that was asked for. Its headers say
// where the others are; in the gaps nothing is mapped. A library is mapped as a whole.
void include_gaps(const link_map& map, UnwindModule* out) {
  if (gaps.module.load(std::memory_order_relaxed) == Gaps::kNone) return;
  const auto* const parts = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const auto index = reinterpret_cast<uintptr_t>(out->index);
  Range all{UINTPTR_MAX, 0}, tables;
  for (size_t i = 0, count = getauxval(AT_PHNUM); parts != nullptr && i < count; ++i) {
    if (parts[i].p_type != PT_LOAD) continue;
    const uintptr_t start = map.l_addr + parts[i].p_vaddr, limit = start + parts[i].p_memsz;
    if (start < all.start) all.start = align_down(start, kFirstPage);
    if (limit > all.limit) all.limit = limit;
    if (index - start < parts[i].p_filesz) tables = {start, start + parts[i].p_filesz};
  }
  const bool is_program = all.start < all.limit && all.contains(out->start) &&
                          all.contains(reinterpret_cast<uintptr_t>(parts));
  if (!is_program || tables.limit == 0) return;
  if (all.limit - all.start <= out->limit - out->start)
    return gaps.module.store(Gaps::kNone, std::memory_order_relaxed);
  out->start = all.start;
  out->limit = all.limit;
  gaps.start.store(tables.start, std::memory_order_relaxed);
  gaps.limit.store(tables.limit, std::memory_order_relaxed);
  gaps.module.store(all.start, std::memory_order_release);
}

// A file that was cut short is still mapped, but to read what is not there any more ends the
// process: the last of what the file shares with the process has to be there.
bool is_whole(const ElfW(Phdr) & part, uintptr_t start) {
  if (part.p_type != PT_LOAD || (part.p_flags & (PF_R | PF_W)) != PF_R || part.p_filesz == 0)
    return true;
  return is_there(start) && is_there(start + part.p_filesz - 1);
}

// The same of the whole module, by the headers in its first page.
bool is_whole(const dl_find_object& found) {
  const auto start = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  alignas(ElfW(Phdr)) char page[2048];
  if (found.dlfo_link_map->l_name[0] == 0) return true;  // the kernel lets nobody write to it
  if (!read_own_memory(start, page, sizeof(page))) return false;
  constexpr size_t kRoom = (sizeof(page) - sizeof(ElfW(Ehdr))) / sizeof(ElfW(Phdr));
  size_t count;
  const ElfW(Phdr)* const parts = segments_in(page, &count);
  if (parts == nullptr || count > kRoom) return true;  // not known
  for (size_t i = 0; i < count; ++i)
    if (!is_whole(parts[i], found.dlfo_link_map->l_addr + parts[i].p_vaddr)) return false;
  return true;
}

}  // namespace

const ElfW(Phdr) * segments_in(const void* page, size_t* count) {
  const auto& header = *static_cast<const ElfW(Ehdr)*>(page);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phoff != sizeof(header) ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    return nullptr;
  *count = header.e_phnum;
  return reinterpret_cast<const ElfW(Phdr)*>(&header + 1);
}

uint64_t module_identity(const UnwindModule& module) {
  return identity_of(hashes_of(module), module.start);
}

uint64_t module_build(const UnwindModule& module) {
  return hashes_of(module).build;
}

bool find_unwind_module(uintptr_t address, UnwindModule* out) {
  dl_find_object found;
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return false;
  if (found.dlfo_eh_frame == nullptr) return false;
  out->start = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  out->limit = reinterpret_cast<uintptr_t>(found.dlfo_map_end);
  out->index = static_cast<const uint8_t*>(found.dlfo_eh_frame);
  if (found.dlfo_link_map->l_name[0] == 0) include_gaps(*found.dlfo_link_map, out);
  const ModuleHashes hashes = hashes_of(*out);
  out->build = hashes.build;
  out->identity = identity_of(hashes, out->start);
  return true;
}

bool find_whole_module(uintptr_t address, UnwindModule* out) {
  dl_find_object found;
  return _dl_find_object(reinterpret_cast<void*>(address), &found) == 0 && is_whole(found) &&
         find_unwind_module(address, out);
}

bool find_unwind_module(const dl_phdr_info& info, UnwindModule* out) {
  uintptr_t index = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    ElfW(Phdr) part;
    if (!read_own_memory(reinterpret_cast<uintptr_t>(&info.dlpi_phdr[i]), &part, sizeof(part)))
      return false;
    const uintptr_t start = info.dlpi_addr + part.p_vaddr;
    if (!is_whole(part, start)) return false;
    if (part.p_type == PT_GNU_EH_FRAME) index = start;
  }
  return index != 0 && find_unwind_module(index, out);
}

FunctionIndex::FunctionIndex(const UnwindModule& module)
    : module_(module), rows_(index_rows(module, &count_)) {}

uintptr_t FunctionIndex::begin(uint32_t i) const {
  return reinterpret_cast<uintptr_t>(module_.index) +
         static_cast<intptr_t>(index_row(rows_, i).function);
}

uint32_t FunctionIndex::find(uintptr_t address) const {
  uint32_t first = 0;  // rows before it start at or below address; from first + count on, above
  for (uint32_t count = count_; count > 0;) {
    const uint32_t half = count / 2;
    const bool below = begin(first + half) <= address;
    first = below ? first + half + 1 : first;
    count = below ? count - half - 1 : half;
  }
  return first == 0 ? count_ : first - 1;
}

bool FunctionIndex::entry(uint32_t i, FrameEntry* out) const {
  const uintptr_t base = reinterpret_cast<uintptr_t>(module_.index);
  const IndexRow row = index_row(rows_, i);
  *out = FrameEntry();
  return read_entry(module_, base + static_cast<intptr_t>(row.entry), out);
}

bool find_frame_entry(const UnwindModule& module, uintptr_t address, FrameEntry* out) {
  const FunctionIndex index(module);
  const uint32_t i = index.find(address);
  return i < index.size() && index.entry(i, out) && address - out->begin < out->end - out->begin;
}

}  // namespace llamalloc
