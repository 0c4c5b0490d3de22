// SPDX-License-Identifier: Apache-2.0
#include "os/code_shape.h"

#include <dlfcn.h>
#include <elf.h>
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

// Of the next function that does not look the same (0: the module ends), and of how far it is. So
// functions that look the same, side by side, differ by their neighbours.
uint32_t neighbour(uint64_t self, uint32_t distance) {
  return as_neighbour(mix(self, distance));
}

struct Visit {
  VisitFunction function;
  void* visitor;
};

// Functions side by side that look the same, and what they lie between.
struct Run {
  uint64_t before = 0, self = 0, after = 0;
  uint32_t first = 0, end = 0;

  FunctionShape shape(uint32_t i) const {
    return {self, neighbour(before, i - first), neighbour(after, end - 1 - i)};
  }
};

void visit_run(const UnwindModule& module, const FunctionIndex& index, const Run& run,
               const Visit& visit) {
  for (uint32_t i = run.first; i < run.end; ++i) {
    const uintptr_t begin = index.begin(i);
    visit.function(visit.visitor, {run.shape(i), module.build, begin - module.start, begin});
  }
}

void visit_module(const UnwindModule& module, uint64_t name, const Visit& visit) {
  const FunctionIndex index(module);
  FrameEntry entry;
  Run run;
  run.self = self_of(index, 0, name, &entry);
  for (; run.first < index.size(); run.first = run.end) {
    run.end = run.first + 1;
    while ((run.after = self_of(index, run.end, name, &entry)) == run.self && run.self != 0)
      ++run.end;
    if (run.self != 0) visit_run(module, index, run, visit);
    run.before = run.self;
    run.self = run.after;
  }
}

template <typename Work>
void for_each_module(Work& work) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        UnwindModule module;
        if (find_unwind_module(*info, &module)) (*static_cast<Work*>(argument))(*info, module);
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

// Whether the file's own headers say that all of it can be read. Else it is not: a damaged table
// may name what is not there, and code need not be readable.
bool is_readable(const UnwindModule& module, uintptr_t begin, uintptr_t end) {
  constexpr size_t kPage = 4096;  // the first one of a module is always mapped
  if (module.start % kPage != 0 || begin >= end) return false;
  size_t count;
  const ElfW(Phdr)* const segments =
      segments_in(reinterpret_cast<const void*>(module.start), &count);
  if (segments == nullptr || count >= kPage / sizeof(ElfW(Phdr))) return false;
  uintptr_t lowest = UINTPTR_MAX;
  for (size_t i = 0; i < count; ++i)
    if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr < lowest) lowest = segments[i].p_vaddr;
  const uintptr_t base = module.start - lowest / kPage * kPage;
  for (size_t i = 0; i < count; ++i) {
    const ElfW(Phdr)& segment = segments[i];
    const uintptr_t low = base + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_R) != 0 && low <= begin &&
        end - low <= segment.p_filesz)
      return true;
  }
  return false;
}

bool find_place(uintptr_t address, Place* out) {
  dl_find_object found;
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0 ||
      !find_whole_module(address, &out->module))
    return false;
  const FunctionIndex index(out->module);
  out->name = hash_name(found.dlfo_link_map->l_name);
  out->at = index.find(address);
  out->self = self_of(index, out->at, out->name, &out->entry);
  return out->self != 0 && address - out->entry.begin < out->entry.end - out->entry.begin;
}

// Long runs that were walked over, each once: code is asked for frame by frame. Under the loader's
// lock, as everything here.
struct KnownRuns {
  static constexpr uint32_t kLong = 16;  // functions; shorter ones are walked over again
  static constexpr int kRuns = 16;
  struct Known {
    uintptr_t module = 0;
    uint64_t build = 0;
    Run run;
    bool has(const Place& place) const {
      return module == place.module.start && build == place.module.build &&
             run.self == place.self && place.at - run.first < run.end - run.first;
    }
  };
  Known known[kRuns];
  int next = 0;

  const Run* find(const Place& place) const {
    for (const Known& k : known)
      if (k.has(place)) return &k.run;
    return nullptr;
  }
  void note(const Place& place, const Run& run) {
    if (run.end - run.first < kLong) return;
    known[next] = {place.module.start, place.module.build, run};
    next = (next + 1) % kRuns;
  }
};
constinit KnownRuns known_runs;

// As visit_run says of it.
FunctionShape shape_of(const Place& place) {
  if (const Run* run = known_runs.find(place)) return run->shape(place.at);
  const FunctionIndex index(place.module);
  FrameEntry entry;
  Run run{0, place.self, 0, place.at, place.at + 1};
  while ((run.before = self_of(index, run.first - 1, place.name, &entry)) == run.self) --run.first;
  while ((run.after = self_of(index, run.end, place.name, &entry)) == run.self) ++run.end;
  known_runs.note(place, run);
  return run.shape(place.at);
}

// Calls see(return address, callee) for each direct call in the function. A byte within another
// instruction may pass for a call; then its target is hardly ever the begin of a function, or of an
// entry of the linkage table, which has one unwind row.
template <typename See>
void for_each_call(const Place& place, See&& see) {
  constexpr uint8_t kCall = 0xe8;  // of a 32-bit distance from the return address
  constexpr size_t kCallBytes = 5;
  constexpr uintptr_t kLinkageEntry = 16;  // bytes
  if (!is_readable(place.module, place.entry.begin, place.entry.end)) return;
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
    if ((target - callee.begin) % kLinkageEntry != 0) continue;
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
  out->function = shape_of(place);
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

// Of the program and its libraries: neither the system's code, which is another one after each
// update of the kernel, nor this library.
uint64_t loaded_builds() {
  uint64_t all = 0;
  auto work = [&](const dl_phdr_info& info, const UnwindModule& module) {
    const bool is_ours = module.contains(reinterpret_cast<uintptr_t>(&loaded_builds));
    if (strncmp(info.dlpi_name, "linux-vdso", 10) != 0 && (!is_ours || info.dlpi_name[0] == 0))
      all = mix(all, module.build);
  };
  for_each_module(work);
  return all;
}

uint64_t count_loads() {
  uint64_t loads = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<uint64_t*>(out) = info->dlpi_adds;
        return 1;
      },
      &loads);
  return loads;
}

}  // namespace llamalloc
