// SPDX-License-Identifier: Apache-2.0
#include "os/symbols.h"

#include <cstring>

#include "base/errno_keeper.h"
#include "os/linux/eh_frame.h"
#include "os/linux/symbols_module.h"

namespace llamalloc {
namespace {

constexpr int kWarm = 2;  // calls of rest()

// Writes a frame name: printable, cut, 0-terminated.
class NameWriter {
 public:
  NameWriter(char* out, size_t room) : out_(out), room_(room) {}

  void put(uint8_t byte) {
    if (length_ + 1 < room_) out_[length_++] = byte >= 0x21 && byte <= 0x7e ? byte : '_';
  }
  void put(const char* text) {
    for (; *text != 0; ++text) put(static_cast<uint8_t>(*text));
  }
  void put(ByteRange bytes) {
    for (size_t i = 0; i < bytes.size; ++i) put(bytes.data[i]);
  }
  void put_hexadecimal(uint64_t value) {
    int shift = 60;
    while (shift > 0 && value >> shift == 0) shift -= 4;
    for (; shift >= 0; shift -= 4)
      put(static_cast<uint8_t>("0123456789abcdef"[value >> shift & 15]));
  }
  size_t finish() {
    if (room_ > 0) out_[length_] = 0;
    return length_;
  }

 private:
  char* out_;
  size_t room_;
  size_t length_ = 0;
};

}  // namespace

void Symboliser::refresh() {
  struct Reading {
    MetadataArena& arena;
    Module*& modules;
    uint64_t loads, unloads;
    bool first;
  } reading{arena_, modules_, loads_seen_, unloads_seen_, true};
  // Under the loader's lock, so that names and notes stay mapped while they are read.
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        Reading& r = *static_cast<Reading*>(argument);
        if (r.first) {
          if (r.loads == info->dlpi_adds && r.unloads == info->dlpi_subs) return 1;
          r.loads = info->dlpi_adds;
          r.unloads = info->dlpi_subs;
          r.first = false;
          for (Module* m = r.modules; m != nullptr; m = m->next) m->loaded = false;
        }
        Module found;
        if (!found.describe(*info)) return 0;
        Module* m = r.modules;
        while (m != nullptr && (m->loaded || !m->is_same_file(found))) m = m->next;
        if (m == nullptr) {
          m = r.arena.make<Module>(found);
          if (m == nullptr) return 0;
          m->next = r.modules;
          r.modules = m;
        }
        m->loaded = true;
        m->bias = found.bias;
        m->start = found.start;
        m->limit = found.limit;
        return 0;
      },
      &reading);
  if (!reading.first) forget_overlaid();
  loads_seen_ = reading.loads;
  unloads_seen_ = reading.unloads;
}

void Symboliser::forget_overlaid() {
  for (Module* gone = modules_; gone != nullptr; gone = gone->next)
    for (Module* m = modules_; m != nullptr && !gone->loaded; m = m->next)
      if (m->loaded && m->start < gone->limit && gone->start < m->limit) gone->limit = gone->start;
}

Symboliser::Module* Symboliser::find_module(uintptr_t address) {
  refresh();
  Module* gone = nullptr;
  for (Module* m = modules_; m != nullptr; m = m->next) {
    if (!m->contains(address)) continue;
    if (m->loaded) return m;
    if (gone == nullptr) gone = m;
  }
  return gone;
}

size_t Symboliser::frame_name(uintptr_t return_address, char* out, size_t room) {
  const ErrnoKeeper keeper;
  const uintptr_t address = return_address - 1;
  NameWriter writer(out, room);
  Module* module = find_module(address);
  if (module == nullptr) {
    writer.put("?");
    return writer.finish();
  }
  module->open(arena_);
  warmth_ = kWarm;
  const ByteRange name = module->index.name_at(address - module->bias);
  if (name.size != 0) {
    writer.put(name);
    return writer.finish();
  }
  writer.put("?");
  writer.put(module->base_name());
  uintptr_t start = 0;
  auto work = [&] { start = unwind_function_start(address); };
  if (module->loaded) with_modules_held(work);
  if (start != 0) {
    writer.put("+0x");
    writer.put_hexadecimal(start - module->bias);
  }
  return writer.finish();
}

void Symboliser::rest(PageSource& system) {
  if (warmth_ == 0 || --warmth_ != 0) return;
  for (const Module* m = modules_; m != nullptr; m = m->next)
    if (m->file.size != 0) system.discard(const_cast<uint8_t*>(m->file.data), m->file.size);
}

bool Symboliser::module_of(uintptr_t return_address, ModuleInfo* out) {
  const ErrnoKeeper keeper;
  const uintptr_t address = return_address - 1;
  const Module* module = find_module(address);
  if (module == nullptr) return false;
  CodeSegment around{module->start - module->bias, module->limit - module->bias, 0};
  for (int i = 0; i < module->code_count; ++i) {
    const CodeSegment& code = module->code[i];
    if (address - module->bias - code.start < code.limit - code.start) around = code;
  }
  out->start = module->bias + around.start;
  out->limit = module->bias + around.limit;
  out->file_offset = around.file_offset;
  memcpy(out->path, module->path, sizeof(out->path));
  memcpy(out->build_id, module->build_id, sizeof(out->build_id));
  out->build_id_bytes = module->build_id_bytes;
  return true;
}

}  // namespace llamalloc
