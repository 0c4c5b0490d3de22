// SPDX-License-Identifier: Apache-2.0
#include "runtime/misuse.h"
#include "base/held_lines.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "os/no_cancel.h"
#include "runtime/background_state.h"
#include "runtime/process_world.h"

namespace llamalloc {
namespace {

constexpr uint32_t kMostLines = 20;  // with on_misuse:report
constexpr int kFrames = 6;
constinit std::atomic<uint32_t> lines{0};
constinit std::atomic<bool> size_noted{false};

// A text that is cut when it is full.
class Line {
 public:
  void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list args;
    va_start(args, format);
    add_list(format, args);
    va_end(args);
  }
  void add_list(const char* format, va_list args) {
    const int n = vsnprintf(text_ + used_, sizeof(text_) - used_, format, args);
    if (n > 0) used_ += static_cast<size_t>(n);
    if (used_ >= sizeof(text_)) used_ = sizeof(text_) - 1;
  }
  const char* text() const { return text_; }

 private:
  char text_[440] = "";
  size_t used_ = 0;
};

const void* object_start(const void* p, const Span* span) {
  if (span->kind != SpanKind::slots) return span->base;
  return span->base + size_t{span->slot_of(p)} * span->slot_size;
}

void add_size(Line& line, const void* p, const Span* span) {
  const char* what = span->kind == SpanKind::slots ? "size class" : "mapping or run of";
  line.add("%s %zu", what, span->object_size());
  const void* start = object_start(p, span);
  if (start != p)
    line.add(", %zu bytes into the object at %p",
             static_cast<size_t>(static_cast<const char*>(p) - static_cast<const char*>(start)),
             start);
}

// names: null for addresses.
void add_frames(Line& line, uint32_t stack, Symboliser* names) {
  const StackTable& stacks = process.profiler.stacks();
  for (uint32_t i = 0; i < stacks.depth(stack) && i < kFrames; ++i) {
    const uint32_t frame = stacks.frame(stack, i);
    const uintptr_t address = stacks.address(frame);
    if (address == 0) return;  // not known
    char name[96] = "";
    if (names != nullptr) names->frame_name(address, name, sizeof(name), stacks.image(frame));
    line.add("%s", i == 0 ? ", allocated by " : " < ");
    if (name[0] != 0)
      line.add("%s", name);
    else
      line.add("%p", reinterpret_cast<void*>(address));
  }
}

// Names if nobody else works with the symboliser at this moment, else addresses. So, too, where the
// program filters system calls: it may be killed for reading a file, before anything is said.
void add_stack(Line& line, const void* start) {
  uint32_t stack = 0;
  if (!process.profiler.stack_of_live(start, &stack)) return;
  const NoCancel here;
  if (process_world.program_filters_calls() || !background.work_lock.try_lock())
    return add_frames(line, stack, nullptr);
  add_frames(line, stack, background.ensure_symboliser());
  background.work_lock.unlock();
}

void describe(Line& line, const void* p, const Span* span) {
  line.add(" (");
  if (span != nullptr) add_size(line, p, span);
  line.add("%sthread %ld", span ? ", " : "", syscall(SYS_gettid));
  if (span != nullptr) add_stack(line, object_start(p, span));
  line.add(")");
}

}  // namespace

void report_misuse(const void* p, const Span* span, const char* format, ...) {
  process.counters.add(Stat::bad_frees);
  const bool aborts = process.options.on_misuse == OnMisuse::abort;
  if (!aborts && lines.fetch_add(1, std::memory_order_relaxed) >= kMostLines) return;
  Line line;
  va_list args;
  va_start(args, format);
  line.add_list(format, args);
  va_end(args);
  describe(line, p, span);
  if (aborts) HeldLines::let_go();
  print_line("object %p: %s; %s", p, line.text(), aborts ? "aborting" : "continuing");
  if (aborts) abort();
}

void note_wrong_size(const void* p, const Span* span, size_t given) {
  process.counters.add(Stat::wrong_sizes);
  if (size_noted.exchange(true, std::memory_order_relaxed)) return;
  Line line;
  describe(line, p, span);
  print_line(
      "object %p: freed with the size %zu, but the object is smaller%s; continuing, because free "
      "does not need the size; reported only once (hardened:on reports all)",
      p, given, line.text());
}

}  // namespace llamalloc
