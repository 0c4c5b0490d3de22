// SPDX-License-Identifier: Apache-2.0
#include "runtime/published.h"

#include <array>
#include <cstring>

#include "runtime/control.h"
#include "runtime/figures.h"
#include "runtime/learning.h"
#include "runtime/process.h"
#include "runtime/system_settings.h"

namespace llamalloc {
namespace {

constexpr size_t kNameRoom = 28;

struct PublishedRow {
  enum Kind : uint32_t { number, text, text_pointer };
  char name[kNameRoom];
  Kind kind;
  uint64_t address;
  uint32_t width;   // bytes of one element
  uint32_t count;   // of elements
  uint32_t stride;  // bytes from one to the next
  uint32_t unused;
};
static_assert(sizeof(PublishedRow) == 56);

constexpr uint32_t kMostRows = 192;

struct PublishedBlock {
  char magic[8];     // "llamaps" and 0, written last
  uint32_t version;  // 1
  uint32_t rows;
  PublishedRow row[kMostRows];
};
static_assert(sizeof(PublishedBlock) == 16 + kMostRows * 56);

}  // namespace

extern "C" {
[[gnu::visibility("hidden"), gnu::used]] constinit PublishedBlock llamalloc_published{};
}

// Where the block is, as a distance from the field itself: it holds wherever the file is loaded.
asm(".pushsection .note.llamalloc,\"a\",%note\n"
    ".balign 4\n"
    ".long 2f-1f\n"
    ".long 4f-3f\n"
    ".long 1\n"
    "1: .asciz \"llamalloc\"\n"
    "2: .balign 4\n"
    "3: .long llamalloc_published - .\n"
    "4: .balign 4\n"
    ".popsection\n");

namespace {

void add_row(const char* name, PublishedRow::Kind kind, const void* address, size_t width,
             size_t count = 1, size_t stride = 0) {
  if (llamalloc_published.rows == kMostRows) return;
  PublishedRow& row = llamalloc_published.row[llamalloc_published.rows++];
  strncpy(row.name, name, kNameRoom - 1);
  row.kind = kind;
  row.address = reinterpret_cast<uint64_t>(address);
  row.width = static_cast<uint32_t>(width);
  row.count = static_cast<uint32_t>(count);
  row.stride = static_cast<uint32_t>(stride);
}

template <typename T>
void add_number(const char* name, const T* counter) {
  add_row(name, PublishedRow::number, counter, sizeof(T));
}

// "stat." and the name of a counter that is kept as such; the reader works the others out.
void add_counters() {
  for (int i = 0; i < kStats; ++i) {
    if (kStatRows[i].kind[0] != 'c') continue;
    char name[kNameRoom] = "stat.";
    strncat(name, kStatRows[i].name, sizeof(name) - 6);
    add_number(name, process.counters.address(static_cast<Stat>(i)));
  }
}

// Blocks of a span of samples, by size class.
constexpr std::array<uint16_t, kSizeClasses> kSampleBlocks = [] {
  std::array<uint16_t, kSizeClasses> blocks{};
  for (int c = 0; c < kSizeClasses; ++c) blocks[c] = shape_of_bin(kLocalBins + c).blocks;
  return blocks;
}();

void add_bins() {
  const auto add = [](const char* name, const auto& first, size_t count, size_t stride) {
    add_row(name, PublishedRow::number, &first, sizeof(first), count, stride);
  };
  add("bins.taken", heap_tables.bins[0].taken, kBins, sizeof(Bin));
  add("bins.spans", heap_tables.bins[0].spans, kBins, sizeof(Bin));
  add("classes.size", kSizeClassRows[0].size, kSizeClasses, sizeof(SizeClassRow));
  add("classes.blocks", kSizeClassRows[0].blocks, kSizeClasses, sizeof(SizeClassRow));
  add("samples.blocks", kSampleBlocks[0], kSizeClasses, sizeof(kSampleBlocks[0]));
  const auto* pages = heap_tables.sets.of[0][0].pages_counter();
  add("groups.pages", *pages, kPageGroups * kPageKinds, sizeof(PageSet));
}

void add_texts() {
  const auto add = [](const char* name, const char* text, size_t room) {
    add_row(name, PublishedRow::text, text, room);
  };
  static constexpr char kVersion[] = LLAMALLOC_VERSION;
  add("version", kVersion, sizeof(kVersion));
  add("http", http_address, sizeof(http_address));
  add("control", control_address, sizeof(control_address));
  add("learn", process.options.learn.text, kOptionText);
  add_row("model_state", PublishedRow::text_pointer, &process.model_state, sizeof(char*));
  const GateSentences gate = gate_sentences();
  if (gate.texts == nullptr) return;
  add_row("gate.sentences", PublishedRow::text, gate.texts, gate.room, 2, gate.room);
  add_row("gate.valid", PublishedRow::number, gate.valid, sizeof(uint32_t));
}

void add_option(const char* name, const OptionText& option) {
  add_row(name, PublishedRow::text, option.text, kOptionText);
}
template <typename T>
void add_option(const char* name, const T& option) {
  add_number(name, &option);
}

// "o." and the name.
void add_options() {
#define OPTION(kind, name, default_value, minimum, maximum, is_path, help) \
  static_assert(sizeof("o." #name) <= kNameRoom);                          \
  add_option("o." #name, process.options.name);
#include "contracts/options.def"
}

}  // namespace

void publish_counters() {
  // What rooms count themselves has a row of its own; the first of a name is the one that counts.
  process.profiler.publish([](const char* name, const auto* p) { add_number(name, p); });
  process.heap.publish([](const char* name, const auto* p) { add_number(name, p); });
  add_number("started", &process.started);
  add_number("placement_on", &process.placement_on);
  add_number("threads", process.threads.in_use_counter());
  add_counters();
  add_bins();
  add_texts();
  add_options();
  llamalloc_published.version = 1;
  std::atomic_signal_fence(std::memory_order_release);
  memcpy(llamalloc_published.magic, "llamaps", sizeof(llamalloc_published.magic));
}

}  // namespace llamalloc
