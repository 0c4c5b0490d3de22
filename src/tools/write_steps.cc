// SPDX-License-Identifier: Apache-2.0
#include "tools/write_steps.h"

#include <cstdio>
#include <memory>

#include "tools/replay_steps.h"

namespace llamalloc {
namespace {

using trace::Event;
using trace::EventKind;

Step step_of(const Event& e, sim::SlotTable& slots) {
  const uint32_t slot = e.kind == EventKind::allocate ? slots.add() : slots.find(e.object);
  if (e.kind == EventKind::free) slots.remove(e.object);
  return {e.time, e.size, slot, static_cast<uint16_t>(e.thread), e.kind, e.alignment_log2};
}

bool write_all(sim::TraceInput& input, const sim::Survey& survey, FILE* file) {
  const uint64_t threads = survey.thread_ends.size();
  StepsHeader header{survey.events, 0, threads, survey.duration};
  fwrite(&header, sizeof(header), 1, file);
  sim::SlotTable slots;
  const auto source = input.open();
  Event events[1024];
  Step steps[1024] = {};
  while (const size_t count = source->read(events)) {
    for (size_t i = 0; i < count; ++i) steps[i] = step_of(events[i], slots);
    fwrite(steps, sizeof(Step), count, file);
  }
  header.slots = slots.room();
  fseek(file, 0, SEEK_SET);
  fwrite(&header, sizeof(header), 1, file);
  return ferror(file) == 0;
}

}  // namespace

bool write_steps(sim::TraceInput& input, const sim::Survey& survey, const std::string& path,
                 std::string* error) {
  if (survey.thread_ends.size() > kMostReplayThreads)
    return *error = "over 65536 threads; replay a part: llamalloc trace cut", false;
  FILE* file = fopen(path.c_str(), "wb");
  bool good = file != nullptr && write_all(input, survey, file);
  good = file != nullptr && fclose(file) == 0 && good;
  if (!good) *error = path + ": no room for the events; replay a part: llamalloc trace cut";
  return good;
}

}  // namespace llamalloc
