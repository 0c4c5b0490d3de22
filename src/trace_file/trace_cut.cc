// SPDX-License-Identifier: Apache-2.0
#include "trace_file/trace_cut.h"

#include <algorithm>
#include <functional>
#include <map>

#include "trace_file/trace_writer.h"

namespace llamalloc::trace {
namespace {

using Emit = std::function<void(const Event&)>;

// Goes over the window's events, objects numbered anew.
class WindowWalk {
 public:
  WindowWalk(TraceReader& reader, const Window& window) : reader_(reader), window_(window) {}

  bool run(const Emit& emit, std::string* error) {
    emit_ = &emit;
    reader_.rewind();
    std::vector<Event> events(4096);
    while (const size_t count = reader_.read(events))
      for (size_t i = 0; i < count; ++i)
        if (!take(events[i])) return true;
    if (!has_begun_) begin();
    *error = reader_.error();
    return error->empty();
  }

 private:
  // False: the window is over.
  bool take(Event event) {
    if (event.time < window_.from) return note(event), true;
    if (!has_begun_ && !begin()) return false;
    if (event.time >= window_.to || emitted_ == window_.max_events) return false;
    if (event.kind == EventKind::allocate) {
      put(event);
      return true;
    }
    const uint64_t number = numbers_.take(event.object);
    if (event.kind == EventKind::resize) numbers_.put(event.object, number);
    event.object = number;
    event.time -= window_.from;
    (*emit_)(event);
    ++emitted_;
    return true;
  }
  // Before the window: keeps what lives.
  void note(const Event& event) {
    if (event.kind == EventKind::free) {
      before_.erase(event.object);
      return;
    }
    const auto [found, is_new] = before_.try_emplace(event.object, event);
    if (!is_new) found->second.size = event.size;
  }
  bool begin() {
    has_begun_ = true;
    for (auto& [object, event] : before_) {
      if (emitted_ == window_.max_events) return false;
      event.time = window_.from;
      put(event);
    }
    before_.clear();
    return true;
  }
  void put(Event event) {
    numbers_.put(event.object, next_);
    event.object = next_++;
    event.time -= window_.from;
    (*emit_)(event);
    ++emitted_;
  }

  TraceReader& reader_;
  const Window& window_;
  const Emit* emit_ = nullptr;
  bool has_begun_ = false;
  std::map<uint64_t, Event> before_;
  AddressMap numbers_;
  uint64_t next_ = 0;
  uint64_t emitted_ = 0;
};

// The stacks that are marked, with what they name; stack numbers old to new in *numbers.
Tables subset(const Tables& all, const std::vector<bool>& used, std::vector<uint32_t>* numbers) {
  constexpr uint32_t kUnused = ~uint32_t{0};
  Tables some;
  std::vector<uint32_t> frames(all.frames.size(), kUnused), modules(all.modules.size(), kUnused);
  numbers->assign(all.stacks.size(), 0);
  for (uint32_t i = 1; i < all.stacks.size(); ++i) {
    if (!used[i]) continue;
    std::vector<uint32_t> stack;
    for (const uint32_t number : all.stacks[i]) {
      if (frames[number] == kUnused) {
        frames[number] = static_cast<uint32_t>(some.frames.size());
        some.frames.push_back(all.frames[number]);
        uint32_t& module = some.frames.back().module;
        if (module != Frame::kNoModule) {
          if (modules[module] == kUnused) {
            modules[module] = static_cast<uint32_t>(some.modules.size());
            some.modules.push_back(all.modules[module]);
          }
          module = modules[module];
        }
      }
      stack.push_back(frames[number]);
    }
    (*numbers)[i] = some.stacks.add(stack);
  }
  return some;
}

TraceFileOptions options_of(const TraceReader& reader, const Window& window, int level) {
  TraceFileOptions options;
  options.pid = reader.file().header().pid;
  options.wall_ns = reader.file().header().wall_ns + window.from;
  options.command = reader.contents().command;
  options.level = level;
  options.ended_in_order = reader.contents().ended_in_order;
  return options;
}

}  // namespace

bool cut(TraceReader& reader, const Window& window, const std::string& output, int level,
         std::string* error) {
  const bool whole = window.is_whole();
  std::vector<bool> used(reader.tables().stacks.size());
  const Emit mark = [&](const Event& event) { used[event.stack] = true; };
  if (!whole && !WindowWalk(reader, window).run(mark, error)) return false;
  auto writer = TraceFileWriter::create(output, options_of(reader, window, level), error);
  if (writer == nullptr) return false;
  std::vector<uint32_t> numbers;
  writer->add_tables(whole ? reader.tables() : subset(reader.tables(), used, &numbers));
  const Emit write = [&](const Event& event) {
    Event copy = event;
    if (!whole) copy.stack = numbers[event.stack];
    writer->write({&copy, 1});
  };
  return WindowWalk(reader, window).run(write, error) && writer->close(error);
}

}  // namespace llamalloc::trace
