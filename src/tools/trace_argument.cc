// SPDX-License-Identifier: Apache-2.0
#include "tools/trace_argument.h"

#include <charconv>
#include <cstdio>

#include "trace_file/trace_reader.h"

namespace llamalloc {
namespace {

constexpr char kPrefix[] = "synthetic:";
constexpr uint64_t kEvents = 1'000'000;
constexpr uint64_t kMostEvents = 1'000'000'000'000;

// A trace file. Its sources share one reader: one of them is read at a time.
class TraceFile final : public sim::TraceInput {
 public:
  explicit TraceFile(std::unique_ptr<trace::TraceReader> reader) : reader_(std::move(reader)) {}

  std::unique_ptr<trace::EventSource> open() override {
    reader_->rewind();
    return std::make_unique<Source>(*reader_);
  }
  std::vector<std::string> frames(uint32_t stack) override {
    const trace::Tables& tables = reader_->tables();
    std::vector<std::string> names;
    if (stack >= tables.stacks.size()) return names;
    for (const uint32_t index : tables.stacks[stack]) {
      const trace::Frame& frame = tables.frames[index];
      char address[24];
      snprintf(address, sizeof(address), "0x%llx", static_cast<unsigned long long>(frame.address));
      names.push_back(frame.name.empty() ? address : frame.name);
    }
    return names;
  }
  std::vector<sim::CodeFrame> code(uint32_t stack) override {
    const trace::Tables& tables = reader_->tables();
    std::vector<sim::CodeFrame> places;
    if (stack >= tables.stacks.size()) return places;
    for (const uint32_t index : tables.stacks[stack])
      places.push_back(place(tables.frames[index], tables.modules));
    return places;
  }
  sim::TraceProgram program() override {
    const trace::Tables& tables = reader_->tables();
    for (const trace::Frame& frame : tables.frames)
      if ((frame.name == "main" || frame.name == "_start") && frame.module < tables.modules.size())
        return program_of(tables.modules[frame.module]);
    return {};
  }
  std::string fault() override { return reader_->error(); }
  bool ended_in_order() override { return reader_->contents().ended_in_order; }

 private:
  static uint64_t build_of(const trace::Module& module) {
    std::vector<uint8_t> id;
    for (size_t i = 0; i + 1 < module.build_id.size(); i += 2)
      id.push_back(static_cast<uint8_t>(std::stoul(module.build_id.substr(i, 2), nullptr, 16)));
    return hash_build_id(id.data(), id.size());
  }
  // Where code lies in the file is where it lies in memory, in what common linkers make.
  static sim::CodeFrame place(const trace::Frame& frame,
                              const std::vector<trace::Module>& modules) {
    if (frame.module < modules.size()) {
      const trace::Module& module = modules[frame.module];
      return {frame.address,
              code_key(build_of(module), frame.address - module.start + module.file_offset)};
    }
    if (!frame.name.empty()) return place_of(frame.name);
    return {frame.address, 0};
  }
  static sim::TraceProgram program_of(const trace::Module& module) {
    return {build_of(module), module.path.substr(module.path.rfind('/') + 1)};
  }
  class Source final : public trace::EventSource {
   public:
    explicit Source(trace::TraceReader& reader) : reader_(reader) {}
    size_t read(std::span<trace::Event> events) override { return reader_.read(events); }

   private:
    trace::TraceReader& reader_;
  };
  std::unique_ptr<trace::TraceReader> reader_;
};

std::unique_ptr<sim::TraceInput> open_synthetic(const std::string& text, std::string* error) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  uint64_t events = kEvents;
  if (colon != std::string::npos) {
    const std::string digits = text.substr(colon + 1);
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), events);
    if (fault != std::errc{} || *end != 0 || events == 0 || events > kMostEvents) {
      *error = "'" + digits + "' is not a number of events up to 1000000000000";
      return nullptr;
    }
  }
  auto load = sim::make_synthetic_load(name, events);
  if (load == nullptr) *error = std::string("no such load; the loads are ") + sim::kSyntheticNames;
  return load;
}

}  // namespace

std::unique_ptr<sim::TraceInput> open_trace(const std::string& name, std::string* error) {
  if (name.starts_with(kPrefix)) return open_synthetic(name.substr(sizeof(kPrefix) - 1), error);
  auto reader = trace::TraceReader::open(name, error);
  if (reader == nullptr) return nullptr;
  return std::make_unique<TraceFile>(std::move(reader));
}

}  // namespace llamalloc
