// SPDX-License-Identifier: Apache-2.0
// Truncated and mutated files: every read stays in the bytes, every loop ends.
#include "os/linux/elf_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "os/linux/symbols_index.h"

namespace llamalloc {
namespace {

std::vector<char> own_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Bytes that end where unreadable memory begins.
class GuardedBytes {
 public:
  explicit GuardedBytes(size_t size) : size_(size), mapped_((size + 4095) / 4096 * 4096 + 4096) {
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + mapped_ - 4096, 4096, PROT_NONE);
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  uint8_t* data() const { return base_ + mapped_ - 4096 - size_; }
  ByteRange range() const { return {data(), size_}; }

 private:
  size_t size_;
  size_t mapped_;
  uint8_t* base_;
};

// The table that names come from: .symtab if there is one, else .dynsym.
SymbolExtents table_of(ByteRange range) {
  const MemoryBytes bytes(range);
  const ElfFile file(bytes);
  SymbolExtents found;
  if (!file.find_symbols(SHT_SYMTAB, &found)) file.find_symbols(SHT_DYNSYM, &found);
  return found;
}

std::string name_at(const SymbolIndex& index, ByteRange range, uint64_t address) {
  const FileExtent name = index.name_at(MemoryBytes(range), address);
  if (name.size == 0) return "";
  EXPECT_LE(name.offset + name.size, range.size);
  return std::string(reinterpret_cast<const char*>(range.data + name.offset), name.size);
}

BuildId build_id_of(ByteRange range) {
  const MemoryBytes bytes(range);
  return ElfFile(bytes).build_id();
}

bool is_elf(ByteRange range) {
  const MemoryBytes bytes(range);
  return ElfFile(bytes).ok();
}

// Everything a symboliser asks of a file. Returns how many symbols lie in a function with a name.
uint32_t read_all(ByteRange range) {
  const MemoryBytes bytes(range);
  const SymbolExtents table = table_of(range);
  build_id_of(range);
  SymbolIndex index;
  EXPECT_TRUE(index.build(bytes, table, system_pages));
  uint32_t named = 0;
  for (uint64_t i = 0; i < table.symbols.size / sizeof(Elf64_Sym); i += 16) {
    Elf64_Sym symbol;
    EXPECT_TRUE(bytes.read(table.symbols.offset + i * sizeof(symbol), &symbol, sizeof(symbol)));
    named += index.name_at(bytes, symbol.st_value).size != 0;
  }
  index.clear(system_pages);
  return named;
}

TEST(ElfFile, ReadsThisProgram) {
  const std::vector<char> bytes = own_file();
  const ByteRange range{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  EXPECT_GT(read_all(range), 60u);
  SymbolIndex index;
  ASSERT_TRUE(index.build(MemoryBytes(range), table_of(range), system_pages));
  EXPECT_TRUE(index.is_consistent());
  index.clear(system_pages);
  EXPECT_FALSE(is_elf({range.data + 1, 100}));
  EXPECT_FALSE(is_elf({}));
}

TEST(ElfFile, SurvivesTruncation) {
  const std::vector<char> bytes = own_file();
  const uint32_t whole = read_all({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    // The section headers stand last, that of .symtab among the last three of them.
    const size_t most = bytes.size() - 3 * sizeof(Elf64_Shdr);
    const size_t size = i < 100 ? static_cast<size_t>(i) : random() % most;
    const GuardedBytes cut(size);
    memcpy(cut.data(), bytes.data(), size);
    EXPECT_LT(read_all(cut.range()), whole);
  }
}

// A small file of our own: 1 section of symbols, 1 of strings.
std::vector<uint8_t> small_file() {
  Elf64_Ehdr header{};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  const char strings[] = "\0outer\0inner\0inner2@@V1\0none";
  Elf64_Sym symbols[5]{};
  const unsigned char function = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbols[1] = {1, function, 0, 1, 100, 100};                          // outer
  symbols[2] = {7, ELF64_ST_INFO(STB_WEAK, STT_FUNC), 0, 1, 120, 10};  // inner
  symbols[3] = {13, function, 0, 1, 120, 5};                           // inner2
  symbols[4] = {24, function, 0, 1, 150, 0};                           // none
  Elf64_Phdr note{};
  note.p_type = PT_NOTE;
  const struct {
    Elf64_Nhdr head{4, 20, NT_GNU_BUILD_ID};
    char name[4] = {'G', 'N', 'U', 0};
    uint8_t id[20] = {1, 2, 3};
  } build_id;
  std::vector<uint8_t> file(sizeof(header));
  const auto append = [&file](const void* data, size_t size) {
    const size_t at = file.size();
    file.resize(at + (size + 7) / 8 * 8);
    memcpy(file.data() + at, data, size);
    return at;
  };
  Elf64_Shdr sections[3]{};
  sections[1].sh_type = SHT_SYMTAB;
  sections[1].sh_link = 2;
  sections[1].sh_entsize = sizeof(Elf64_Sym);
  sections[1].sh_offset = append(symbols, sections[1].sh_size = sizeof(symbols));
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = append(strings, sections[2].sh_size = sizeof(strings));
  note.p_offset = append(&build_id, note.p_filesz = sizeof(build_id));
  header.e_phoff = append(&note, sizeof(note));
  header.e_phnum = 1;
  header.e_shoff = append(sections, sizeof(sections));
  header.e_shnum = 3;
  memcpy(file.data(), &header, sizeof(header));
  return file;
}

TEST(ElfFile, TheInnermostFunctionNamesAnAddress) {
  const std::vector<uint8_t> file = small_file();
  const ByteRange range{file.data(), file.size()};
  SymbolIndex index;
  ASSERT_TRUE(index.build(MemoryBytes(range), table_of(range), system_pages));
  EXPECT_TRUE(index.is_consistent());
  EXPECT_EQ(name_at(index, range, 100), "outer");
  EXPECT_EQ(name_at(index, range, 199), "outer");
  EXPECT_EQ(name_at(index, range, 120), "inner2");  // global before weak, without its version
  EXPECT_EQ(name_at(index, range, 125), "inner");
  EXPECT_EQ(name_at(index, range, 130), "outer");
  EXPECT_EQ(name_at(index, range, 150), "outer");  // not `none`, which has no size
  EXPECT_EQ(name_at(index, range, 99), "");
  EXPECT_EQ(name_at(index, range, 200), "");
  index.clear(system_pages);
  const BuildId id = build_id_of(range);
  ASSERT_EQ(id.size, 20u);
  EXPECT_EQ(id.data[2], 3);
}

// A segment of notes that is aligned to 8: a note with a description of 4 bytes, then the build-id,
// whose description has 22 bytes, unpadded at the end.
std::vector<uint8_t> padded_notes() {
  struct {
    Elf64_Nhdr head{4, 4, 5};
    char name[4] = {'G', 'N', 'U', 0};
    uint8_t text[8] = {9, 9, 9, 9};
  } first;
  struct {
    Elf64_Nhdr head{4, 22, NT_GNU_BUILD_ID};
    char name[4] = {'G', 'N', 'U', 0};
    uint8_t id[22] = {1, 2, 3};
  } second;
  std::vector<uint8_t> notes(sizeof(first) + 16 + 22);
  memcpy(notes.data(), &first, sizeof(first));
  memcpy(notes.data() + sizeof(first), &second, 16 + 22);
  return notes;
}

TEST(ElfFile, NotesMayBeAlignedToEight) {
  const std::vector<uint8_t> notes = padded_notes();
  const MemoryBytes bytes({notes.data(), notes.size()});
  const BuildId id = find_build_id(bytes, {0, notes.size()}, 8);
  ASSERT_EQ(id.size, 22u);
  EXPECT_EQ(id.data[2], 3);
  EXPECT_EQ(find_build_id(bytes, {0, notes.size() - 1}, 8).size, 0u) << "it is cut off";
}

// Functions at one place: by binding, then by name, a shorter one before what it begins.
TEST(ElfFile, AliasesComeInTheOrderOfTheContract) {
  std::vector<uint8_t> file = small_file();
  const ByteRange range{file.data(), file.size()};
  const SymbolExtents table = table_of(range);
  const auto put = [&](uint64_t i, uint32_t name, unsigned char binding, uint64_t size) {
    const Elf64_Sym symbol{
        name, static_cast<unsigned char>(ELF64_ST_INFO(binding, STT_FUNC)), 0, 1, 120, size};
    memcpy(file.data() + table.symbols.offset + i * sizeof(symbol), &symbol, sizeof(symbol));
  };
  const auto first = [&] {
    SymbolIndex index;
    EXPECT_TRUE(index.build(MemoryBytes(range), table, system_pages));
    const std::string name = name_at(index, range, 121);
    index.clear(system_pages);
    return name;
  };
  put(1, 13, STB_GLOBAL, 5);  // inner2
  put(2, 7, STB_GLOBAL, 5);   // inner
  put(3, 24, STB_GLOBAL, 1);  // none, which does not reach so far
  EXPECT_EQ(first(), "inner");
  put(3, 1, STB_LOCAL, 9);  // outer
  EXPECT_EQ(first(), "inner");
  put(3, 1, STB_GLOBAL, 9);
  EXPECT_EQ(first(), "inner");
  put(1, 25, STB_GLOBAL, 5);  // one
  put(2, 24, STB_GLOBAL, 5);  // none
  EXPECT_EQ(first(), "none");
}

TEST(ElfFile, SymbolsThatCannotBeReadAreNone) {
  const std::vector<uint8_t> file = small_file();
  const SymbolExtents table = table_of({file.data(), file.size()});
  const MemoryBytes cut({file.data(), table.symbols.offset + sizeof(Elf64_Sym)});
  SymbolIndex index;
  EXPECT_TRUE(index.build(cut, table, system_pages)) << "memory there is";
  EXPECT_TRUE(index.is_empty());
}

TEST(ElfFile, SurvivesMutation) {
  const std::vector<uint8_t> file = small_file();
  std::mt19937_64 random(3);
  int whole = 0;
  for (int i = 0; i < 20000; ++i) {
    const GuardedBytes bytes(file.size());
    memcpy(bytes.data(), file.data(), file.size());
    for (int j = 0; j < i % 4; ++j) {
      static constexpr uint8_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
      const uint64_t r = random();
      bytes.data()[r % file.size()] = r >> 40 & 1 ? kEdges[(r >> 48) % 5] : r >> 56;
    }
    build_id_of(bytes.range());
    const SymbolExtents table = table_of(bytes.range());
    SymbolIndex index;
    EXPECT_TRUE(index.build(MemoryBytes(bytes.range()), table, system_pages));
    EXPECT_TRUE(index.is_consistent());
    for (uint64_t address : {0ul, 120ul, 199ul, random()}) name_at(index, bytes.range(), address);
    whole += table.symbols.size == 5 * sizeof(Elf64_Sym);
    index.clear(system_pages);
  }
  EXPECT_GT(whole, 5000);
  EXPECT_LT(whole, 20000);
}

}  // namespace
}  // namespace llamalloc
