// SPDX-License-Identifier: Apache-2.0
#include "os/code_shape.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "base/code_key.h"
#include "base/hash.h"
#include "os/linux/eh_frame.h"

namespace llamalloc {
namespace {

// Of the file's name, without its folder and the version behind ".so"; the program itself has none.
uint64_t hash_name(const char* path) {
  const char* const slash = strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path;
  const char* const version = strstr(name, ".so");
  const size_t length = version != nullptr ? static_cast<size_t>(version - name) : strlen(name);
  return hash_build_id(reinterpret_cast<const uint8_t*>(name), length);
}

// The padding behind the instructions is left out.
uint64_t hash_function(uint64_t name, const FrameEntry& entry) {
  const uint8_t* end = entry.program_end;
  while (end > entry.program && end[-1] == 0) --end;
  const auto bytes = static_cast<size_t>(end - entry.program);
  return mix(mix(name, entry.end - entry.begin), hash_build_id(entry.program, bytes)) | 1;
}

uint32_t as_neighbour(uint64_t self) {
  return static_cast<uint32_t>(self >> 32);
}

// 0: out of range, or it has no entry that can be read.
uint64_t self_of(const FunctionIndex& index, uint32_t i, uint64_t name, FrameEntry* entry) {
  return i < index.size() && index.entry(i, entry) ? hash_function(name, *entry) : 0;
}

struct Visit {
  VisitFunction function;
  void* visitor;
};

void visit_module(const UnwindModule& module, uint64_t name, const Visit& visit) {
  const FunctionIndex index(module);
  FrameEntry entry, next_entry;
  uint64_t before = 0, self = self_of(index, 0, name, &entry);
  for (uint32_t i = 0; i < index.size(); ++i) {
    const uint64_t after = self_of(index, i + 1, name, &next_entry);
    if (self != 0)
      visit.function(visit.visitor, {{self, as_neighbour(before), as_neighbour(after)},
                                     module.build,
                                     entry.begin - module.start,
                                     entry.begin});
    before = self;
    self = after;
    entry = next_entry;
  }
}

// False: it has no unwind table.
bool module_of(const dl_phdr_info& info, UnwindModule* out) {
  for (int i = 0; i < info.dlpi_phnum; ++i)
    if (info.dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
      return find_unwind_module(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr, out);
  return false;
}

template <typename Work>
void for_each_module(Work& work) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        UnwindModule module;
        if (module_of(*info, &module)) (*static_cast<Work*>(argument))(*info, module);
        return 0;
      },
      &work);
}

// A function with its module.
struct Place {
  UnwindModule module;
  uint64_t name = 0;
  uint32_t at = 0;  // in the module's index
  uint64_t self = 0;
  FrameEntry entry;
};

bool find_place(uintptr_t address, Place* out) {
  dl_find_object found;
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0 ||
      !find_unwind_module(address, &out->module))
    return false;
  const FunctionIndex index(out->module);
  out->name = hash_name(found.dlfo_link_map->l_name);
  out->at = index.find(address);
  out->self = self_of(index, out->at, out->name, &out->entry);
  return out->self != 0 && address - out->entry.begin < out->entry.end - out->entry.begin;
}

// Calls see(return address, callee) for each direct call in the function. A byte within another
// instruction may pass for a call; then its target is hardly ever the begin of a function.
template <typename See>
void for_each_call(const Place& place, See&& see) {
  constexpr uint8_t kCall = 0xe8;  // of a 32-bit distance from the return address
  constexpr size_t kCallBytes = 5;
  const FunctionIndex index(place.module);
  for (uintptr_t at = place.entry.begin; at + kCallBytes <= place.entry.end; ++at) {
    const auto* const code = reinterpret_cast<const uint8_t*>(at);
    if (*code != kCall) continue;
    int32_t distance;
    memcpy(&distance, code + 1, sizeof(distance));
    const uintptr_t target = at + kCallBytes + static_cast<uintptr_t>(intptr_t{distance});
    FrameEntry callee;
    if (!place.module.contains(target)) continue;
    const uint64_t self = self_of(index, index.find(target), place.name, &callee);
    if (self == 0 || target - callee.begin >= callee.end - callee.begin) continue;
    see(at + kCallBytes, target == callee.begin ? as_neighbour(self) : 0);
  }
}

void find_call_shape(const Place& place, uintptr_t return_address, CallShape* out) {
  bool found = false;
  for_each_call(place, [&](uintptr_t after, uint32_t callee) {
    if (after != return_address) return;
    out->callee = callee;
    found = true;
  });
  if (!found) return;
  for_each_call(place, [&](uintptr_t after, uint32_t callee) {
    if (callee != out->callee) return;
    if (after < return_address) ++out->ordinal;
    ++out->count;
  });
}

bool find_shape(uintptr_t return_address, CodeShape* out) {
  Place place;
  if (!find_place(return_address - 1, &place)) return false;
  const UnwindModule& module = place.module;
  const FunctionIndex index(module);
  FrameEntry neighbour;
  out->function.before = as_neighbour(self_of(index, place.at - 1, place.name, &neighbour));
  out->function.after = as_neighbour(self_of(index, place.at + 1, place.name, &neighbour));
  out->function.self = place.self;
  out->call = {};
  find_call_shape(place, return_address, &out->call);
  out->offset = static_cast<uint32_t>(return_address - place.entry.begin);
  out->build = static_cast<uint32_t>(module.build);
  out->code = code_key(module.build, return_address - module.start);
  return true;
}

}  // namespace

bool shape_of_code(uintptr_t return_address, CodeShape* out) {
  bool found = false;
  auto work = [&] { found = find_shape(return_address, out); };
  with_modules_held(work);
  return found;
}

void visit_functions(VisitFunction function, void* visitor) {
  const Visit visit{function, visitor};
  auto work = [&](const dl_phdr_info& info, const UnwindModule& module) {
    visit_module(module, hash_name(info.dlpi_name), visit);
  };
  for_each_module(work);
}

uint32_t find_call(uintptr_t function, const CallShape& call, uint32_t* offsets) {
  uint32_t count = 0, same = 0;
  auto work = [&] {
    Place place;
    if (call.count == 0 || !find_place(function, &place)) return;
    for_each_call(place, [&](uintptr_t after, uint32_t callee) {
      if (callee != call.callee) return;
      const auto offset = static_cast<uint32_t>(after - function);
      if (count == call.ordinal) same = offset;
      if (count < CallShape::kMostPlaces) offsets[count] = offset;
      ++count;
    });
  };
  with_modules_held(work);
  if (count == 0) return 0;
  if (count != call.count) return call.count == 1 && count <= CallShape::kMostPlaces ? count : 0;
  offsets[0] = same;
  return 1;
}

uint64_t loaded_builds() {
  uint64_t all = 0;
  auto work = [&](const dl_phdr_info&, const UnwindModule& module) {
    all = mix(all, module.build);
  };
  for_each_module(work);
  return all;
}

}  // namespace llamalloc
