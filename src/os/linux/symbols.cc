// SPDX-License-Identifier: Apache-2.0
#include "os/symbols.h"

#include <cstring>
#include <initializer_list>

#include "base/errno_keeper.h"
#include "os/linux/eh_frame.h"
#include "os/linux/loaded_modules.h"
#include "os/linux/symbols_module.h"
#include "os/path.h"
#include "os/unwind.h"

namespace llamalloc {
namespace {

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
  // What somebody else has written to the start of out.
  void take(size_t length) {
    for (size_t i = 0; i < length; ++i) put(static_cast<uint8_t>(out_[i]));
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
  const auto start = [this] {
    for (Module* m = modules_; m != nullptr; m = m->next) m->loaded = false;
  };
  const auto visit = [this](const dl_phdr_info& info) {
    Module found;
    if (found.describe(info)) take_in(found);
  };
  const uint64_t unloads = counts_.unloads;
  if (!read_changed_modules(counts_, start, visit)) return;
  if (counts_.unloads != unloads) unwind_cache_clear();  // some have no build-id
  retire_unloaded();
}

namespace {

template <typename Module>
void push(Module*& list, Module* m) {
  m->next = list;
  list = m;
}

// Takes the first for which is_it(m) holds out of the list; null: there is none.
template <typename Module, typename IsIt>
Module* take(Module*& list, IsIt&& is_it) {
  for (Module** link = &list; *link != nullptr; link = &(*link)->next) {
    Module* const m = *link;
    if (!is_it(*m)) continue;
    *link = m->next;
    return m;
  }
  return nullptr;
}

}  // namespace

void Symboliser::take_in(Module& found) {
  for (Module* m = modules_; m != nullptr; m = m->next)
    if (!m->loaded && m->is_same(found)) {
      m->loaded = true;
      return;
    }
  Module* m = take(gone_, [&](const Module& gone) { return gone.is_same(found); });
  if (m != nullptr) m->file.close(system_);
  if (m == nullptr) m = take(free_, [](const Module&) { return true; });
  if (m == nullptr) m = arena_.make<Module>();
  if (m == nullptr) return;
  *m = found;
  m->loaded = true;
  push(modules_, m);
}

// Their files' memory goes back; the oldest records are used again.
void Symboliser::retire_unloaded() {
  while (Module* m = take(modules_, [](const Module& module) { return !module.loaded; })) {
    m->file.close(system_);
    push(gone_, m);
  }
  int known = 0;
  while (Module* m = take(gone_, [&](const Module&) { return ++known > kGone; })) {
    m->file.close(system_);
    push(free_, m);
    known = 0;
  }
}

uint64_t Symboliser::changes() {
  refresh();
  return counts_.loads + counts_.unloads;
}

Symboliser::Module* Symboliser::find_module(uintptr_t address, uint64_t image) {
  refresh();
  bool covered = false;
  for (Module* m = modules_; m != nullptr; m = m->next) {
    if (m->contains(address) && image != 0 && m->image == 0) m->read_late_image();
    if (m->is(address, image)) return m;
    covered = covered || m->contains(address);
  }
  for (Module* m = gone_; m != nullptr; m = m->next)
    if (m->is(address, image) && (image != 0 || !covered)) return m;
  return nullptr;
}

// Its file may have been cut short since our list was made, and its memory with it; or another
// module lies there. With the modules held.
static bool is_still_there(const Symboliser::Module& module, uintptr_t address) {
  UnwindModule now;
  return find_whole_module(address, &now) && (module.image == 0 || now.identity == module.image);
}

size_t Symboliser::frame_name(uintptr_t return_address, char* out, size_t room, uint64_t image) {
  const ErrnoKeeper keeper;
  const uintptr_t address = return_address - 1;
  NameWriter writer(out, room);
  Module* module = find_module(address, image);
  starved_ = false;
  if (module == nullptr) {
    writer.put("?");
    return writer.finish();
  }
  const size_t length = module->name_at(address - module->bias, out, room, system_);
  starved_ = module->was_starved();
  if (length != 0) {
    writer.take(length);
    return writer.finish();
  }
  writer.put("?");
  writer.put(module->base_name());
  uintptr_t start = 0;
  auto work = [&] {
    if (is_still_there(*module, address)) start = unwind_function_start(address);
  };
  if (module->loaded) with_modules_held(work);
  if (start != 0) {
    writer.put("+0x");
    writer.put_hexadecimal(start - module->bias);
  }
  return writer.finish();
}

bool Symboliser::module_of(uintptr_t return_address, ModuleInfo* out, uint64_t image) {
  const ErrnoKeeper keeper;
  const uintptr_t address = return_address - 1;
  const Module* module = find_module(address, image);
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
  if (module->is_main) called_path(out->path, sizeof(out->path));
  memcpy(out->build_id, module->build_id.data, sizeof(out->build_id));
  out->build_id_bytes = module->build_id.size;
  out->image = module->image;
  out->low = align_down(module->start, kSmallPage);
  out->build = 0;
  auto work = [&] {
    if (is_still_there(*module, address)) out->build = build_of_code(address);
  };
  if (module->loaded) with_modules_held(work);
  return true;
}

}  // namespace llamalloc
