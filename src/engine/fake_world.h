// SPDX-License-Identifier: Apache-2.0
// Surroundings for tests: a worker that is always there, a barrier that can be refused, and a count
// of what was reported.
#pragma once

#include "engine/world.h"

namespace llamalloc {

class FakeWorld : public World {
 public:
  Placement::Choice choose(ThreadCache&, const Request&, bool) override { return choice; }
  void trace_stack(const CallSite& site, StackTrace* out) override {
    out->depth = gives_codes ? 1 + callers : 1;
    for (int i = 0; i < out->depth; ++i) {
      out->frames[i] = site.return_address + static_cast<uintptr_t>(i);
      if (gives_codes) out->codes[i] = out->frames[i];
    }
  }
  uint32_t processor() override { return 0; }
  bool may_adopt() override { return adopts; }
  void introduce_thread(ThreadCache& cache) override { cache.thread_id = cache.rng = ++threads; }
  bool will_tell_end() override { return tells_end; }
  bool thread_exists(uint32_t id) override { return filtered || id != vanished; }
  bool may_issue_barrier() override { return !filtered; }
  void prepare_barrier() override {
    ++prepared;
    filtered = filters_meanwhile;
  }
  bool issue_barrier() override {
    ++barriers;
    return barrier;
  }
  void want_worker() override { ++wanted; }
  void want_idle_caches_emptied() override { ++wanted_for_idle; }
  void call_worker() override { ++called; }
  Pressure pressure(Nanos) override { return near_limit; }
  void report_misuse(const void*, const Span*, const char*) override { ++misuses; }
  void note_wrong_size(const void*, const Span*, size_t) override { ++misuses; }

  Placement::Choice choice;
  Pressure near_limit;
  bool barrier = true;
  int barriers = 0, prepared = 0;
  bool filtered = false, filters_meanwhile = false;  // what the program does
  bool adopts = true;
  bool gives_codes = false;  // of frames: their addresses
  int callers = 0;           // of each site, at the addresses after it; with codes alone
  bool tells_end = true;
  uint32_t threads = 0;
  uint32_t vanished = 0;
  int misuses = 0;
  int wanted = 0;
  int wanted_for_idle = 0;
  int called = 0;
};

}  // namespace llamalloc
