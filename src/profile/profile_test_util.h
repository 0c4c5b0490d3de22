// SPDX-License-Identifier: Apache-2.0
// For the tests of this room: sinks, names and memory of a made-up world, and a reader of profiles
// that shares no code with the writer.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "os/arena.h"
#include "os/byte_sink.h"
#include "profile/frame_names.h"

namespace llamalloc::test {

class BufferSink final : public ByteSink {
 public:
  explicit BufferSink(size_t room = SIZE_MAX) : room_(room) {}
  bool write(const void* data, size_t bytes) override {
    if (failed_ || bytes > room_ - text.size()) return failed_ = true, false;
    text.append(static_cast<const char*>(data), bytes);
    return true;
  }
  std::string text;

 private:
  const size_t room_;
  bool failed_ = false;
};

// Refuses to map once the budget is spent; counts what is mapped.
class LimitedPages final : public PageSource {
 public:
  explicit LimitedPages(size_t budget = SIZE_MAX) : budget(budget) {}
  void* map(size_t bytes, size_t alignment) override {
    if (bytes > budget) return nullptr;
    void* p = system_pages.map(bytes, alignment);
    if (p != nullptr) budget -= bytes, mapped += bytes;
    return p;
  }
  bool unmap(void* p, size_t bytes) override {
    mapped -= bytes;
    return system_pages.unmap(p, bytes);
  }
  Nanos now() override { return system_pages.now(); }
  Nanos now_coarse() override { return system_pages.now_coarse(); }
  void* reserve(size_t, size_t) override { return nullptr; }
  bool commit(void*, size_t) override { return false; }
  void advise_huge(void*, size_t, bool) override {}
  bool discard(void*, size_t) override { return false; }
  void* remap(void*, size_t, size_t) override { return nullptr; }

  std::atomic<size_t> budget;
  std::atomic<size_t> mapped{0};
};

// Names and modules from tables; a return address in no module has the name "?".
class TableNames final : public FrameNames {
 public:
  void add_module(uintptr_t start, uintptr_t limit, const char* path, std::string_view build_id,
                  uintptr_t low = 0, uint64_t build = 0) {
    ModuleInfo m{};
    m.low = low, m.build = build;
    m.start = start, m.limit = limit, m.file_offset = start >> 32;
    strncpy(m.path, path, sizeof(m.path) - 1);
    m.build_id_bytes = static_cast<uint8_t>(build_id.size());
    memcpy(m.build_id, build_id.data(), build_id.size());
    modules_.push_back(m);
  }
  void add_name(uintptr_t return_address, std::string name) { names_[return_address] = name; }

  size_t frame_name(uintptr_t pc, char* out, size_t room, uint64_t) override {
    const auto found = names_.find(pc);
    const std::string name = found == names_.end() ? "?" : found->second;
    const size_t length = std::min(name.size(), room - 1);
    memcpy(out, name.data(), length);
    out[length] = '\0';
    return length;
  }
  bool module_of(uintptr_t pc, ModuleInfo* out, uint64_t) override {
    for (const ModuleInfo& m : modules_)
      if (m.start < pc && pc <= m.limit) return *out = m, true;
    return false;
  }

  uint64_t changes() override { return 1; }

 private:
  std::vector<ModuleInfo> modules_;
  std::map<uintptr_t, std::string> names_;
};

// The content of a gzip stream of stored blocks.
inline std::string gunzip_stored(const std::string& gz) {
  if (gz.size() < 18 || gz.compare(0, 3, "\x1F\x8B\x08") != 0) throw std::runtime_error("no gzip");
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(gz.at(i)); };
  std::string out;
  size_t at = 10;
  for (bool last = false; !last;) {
    last = byte(at) == 1;
    const auto word = [&](size_t i) { return byte(i) | size_t{byte(i + 1)} << 8; };
    const size_t length = word(at + 1);
    if (word(at + 3) != (length ^ 0xFFFF)) throw std::runtime_error("LEN");
    out += gz.substr(at + 5, length);
    at += 5 + length;
  }
  if (at + 8 != gz.size()) throw std::runtime_error("trailer");
  return out;
}

// One message: field number -> its values (numbers, or bytes of what is length-delimited).
struct Message {
  std::map<uint32_t, std::vector<uint64_t>> numbers;
  std::map<uint32_t, std::vector<std::string>> bytes;
};

inline uint64_t read_varint(const std::string& s, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const uint8_t b = static_cast<uint8_t>(s.at(at++));
    value |= uint64_t{b & 0x7Fu} << shift;
    if (b < 0x80) return value;
  }
}

inline Message parse(const std::string& s) {
  Message m;
  for (size_t at = 0; at < s.size();) {
    const uint64_t key = read_varint(s, at);
    const uint64_t value = read_varint(s, at);
    const uint32_t field = static_cast<uint32_t>(key >> 3);
    if ((key & 7) == 0) {
      m.numbers[field].push_back(value);
    } else if ((key & 7) == 2 && value <= s.size() - at) {
      m.bytes[field].push_back(s.substr(at, value));
      at += value;
    } else {
      throw std::runtime_error("wire type");
    }
  }
  return m;
}

struct Sample {
  std::vector<std::string> stack;  // names, innermost first
  std::vector<int64_t> values;
  std::map<std::string, int64_t> numbers;
  std::map<std::string, std::string> texts;
};

inline std::vector<uint64_t> unpack(const std::string& s) {
  std::vector<uint64_t> out;
  for (size_t at = 0; at < s.size();) out.push_back(read_varint(s, at));
  return out;
}

inline std::vector<Sample> read_samples(const std::string& gz) {
  Message profile = parse(gunzip_stored(gz));
  const std::vector<std::string>& strings = profile.bytes[6];
  std::map<uint64_t, std::string> function, location;
  for (const std::string& s : profile.bytes[5]) {
    Message m = parse(s);
    function[m.numbers[1].at(0)] = strings.at(m.numbers[2].at(0));
  }
  for (const std::string& s : profile.bytes[4]) {
    Message m = parse(s);
    location[m.numbers[1].at(0)] = function.at(parse(m.bytes[4].at(0)).numbers[1].at(0));
  }
  std::vector<Sample> samples;
  for (const std::string& s : profile.bytes[2]) {
    Message m = parse(s);
    Sample sample;
    for (const uint64_t id : unpack(m.bytes[1].at(0))) sample.stack.push_back(location.at(id));
    for (const uint64_t v : unpack(m.bytes[2].at(0)))
      sample.values.push_back(static_cast<int64_t>(v));
    for (const std::string& l : m.bytes[3]) {
      Message label = parse(l);
      const std::string key = strings.at(label.numbers[1].at(0));
      if (label.numbers.count(2))
        sample.texts[key] = strings.at(label.numbers[2].at(0));
      else
        sample.numbers[key] = static_cast<int64_t>(label.numbers[3].at(0));
    }
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace llamalloc::test
