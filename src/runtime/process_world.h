// SPDX-License-Identifier: Apache-2.0
// The engine's surroundings in a process: the prediction cache and the worker's queue, stacks and
// processors, the barrier, reports.
//
// A filter of system calls that exists at start comes from a container manager or service manager.
// Those allow membarrier or refuse it with an error. A filter that the program installs itself may
// kill the process for it. Idle caches are then left alone, unless an option says that membarrier
// is allowed.
#pragma once

#include "engine/world.h"
#include "os/pages.h"

namespace llamalloc {

class ProcessWorld final : public World {
 public:
  // Called by the library's constructor.
  void start();
  // Whether a filter of system calls was installed after the start.
  bool program_filters_calls() const { return system_pages.is_filtered(); }
  // Whether caches of idle threads are emptied: "on", or "off: REASON".
  const char* idle_caches_state() const;

  Placement::Choice choose(ThreadCache& cache, const Request& request, bool recheck) override;
  void trace_stack(const CallSite& site, StackTrace* out) override;
  uint32_t processor() override;
  void note_sample(const void* p, size_t size, double weight) override;
  void note_sample_end(const void* p) override;
  bool may_adopt() override;
  void introduce_thread(ThreadCache& cache) override;
  // Again in a forked child: else it would sample what its siblings sample.
  static void name_thread(ThreadCache& cache);
  bool will_tell_end() override;
  bool thread_exists(uint32_t thread_id) override;
  bool may_issue_barrier() override;
  void prepare_barrier() override;
  bool issue_barrier() override;
  void want_worker() override;
  void call_worker() override;
  void want_idle_caches_emptied() override;
  Pressure pressure(Nanos now) override;
  void report_misuse(const void* p, const Span* span, const char* what) override;
  void note_wrong_size(const void* p, const Span* span, size_t given) override;

 private:
  std::atomic<bool> barrier_is_missing_{false};
  std::atomic<bool> program_filters_{false};
};

extern ProcessWorld process_world;

}  // namespace llamalloc
