// SPDX-License-Identifier: Apache-2.0
// Preloaded, it tells by which return addresses a program reaches malloc: what the ways of load.h
// are checked by. It prints one line of JSON at exit:
//
//   {"stacks": [{"count": 81920, "frames": [["sites", 4711, 4700], ...]}, ...]}
//
// A frame is (module, offset of the return address, offset of the function); innermost first. The
// function comes from the unwind tables, so that stripped programs have it too. Objects of SIZE
// bytes count only. For one thread.
#include <dlfcn.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr int kFrames = 12, kStacks = 64;
constexpr size_t kSize = 64;

struct Stack {
  uintptr_t frames[kFrames];
  int depth;
  size_t count;
};

Stack stacks[kStacks];
int known = 0;
bool busy = false;
void* (*next)(size_t) = nullptr;

_Unwind_Reason_Code note(_Unwind_Context* context, void* to) {
  Stack& s = *static_cast<Stack*>(to);
  if (s.depth == kFrames) return _URC_END_OF_STACK;
  s.frames[s.depth++] = _Unwind_GetIP(context);
  return _URC_NO_REASON;
}

void count(const Stack& seen) {
  for (int i = 0; i < known; ++i) {
    Stack& s = stacks[i];
    if (s.depth == seen.depth && !std::memcmp(s.frames, seen.frames, sizeof s.frames)) {
      ++s.count;
      return;
    }
  }
  if (known < kStacks) stacks[known++] = seen;
}

void print_frame(uintptr_t at, bool first) {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<void*>(at), &info)) return;
  const auto base = reinterpret_cast<uintptr_t>(info.dli_fbase);
  const auto start =
      reinterpret_cast<uintptr_t>(_Unwind_FindEnclosingFunction(reinterpret_cast<void*>(at - 1)));
  const char* slash = std::strrchr(info.dli_fname, '/');
  std::fprintf(stderr, "%s[\"%s\", %zu, %zu]", first ? "" : ", ",
               slash ? slash + 1 : info.dli_fname, at - base, start ? start - base : 0);
}

struct AtExit {
  ~AtExit() {
    busy = true;
    std::fputs("{\"stacks\": [", stderr);
    for (int i = 0; i < known; ++i) {
      std::fprintf(stderr, "%s{\"count\": %zu, \"frames\": [", i ? ", " : "", stacks[i].count);
      for (int f = 1; f < stacks[i].depth; ++f) print_frame(stacks[i].frames[f], f == 1);
      std::fputs("]}", stderr);
    }
    std::fputs("]}\n", stderr);
  }
} at_exit;

}  // namespace

namespace {

[[gnu::always_inline]] inline void* counted(size_t size) {
  if (!next) next = reinterpret_cast<void* (*)(size_t)>(dlsym(RTLD_NEXT, "malloc"));
  if (size == kSize && !busy) {
    busy = true;  // the unwinder may allocate
    Stack seen{};
    seen.count = 1;
    _Unwind_Backtrace(note, &seen);
    count(seen);
    busy = false;
  }
  return next(size);
}

}  // namespace

extern "C" [[gnu::noinline]] void* malloc(size_t size) {
  return counted(size);
}

// As in a preloaded allocator: no frame of libstdc++ stands between.
[[gnu::noinline]] void* operator new(size_t size) {
  return counted(size);
}
