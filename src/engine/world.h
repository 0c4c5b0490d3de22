// SPDX-License-Identifier: Apache-2.0
// What the engine asks of its surroundings besides memory and clock (os/pages.h). In a process:
// runtime/process_world.h; in a simulation: sim/product_policy.h.
#pragma once

#include "base/stack_trace.h"
#include "engine/request.h"
#include "engine/thread_cache.h"
#include "policy/placement.h"

namespace llamalloc {

class World {
 public:
  // Where an object of a predicting thread belongs. recheck: its prediction is due for another
  // look.
  virtual Placement::Choice choose(ThreadCache& cache, const Request& request, bool recheck) = 0;
  // The stack of the calling thread, from the request's call site outward, and its processor: of a
  // sample.
  virtual void trace_stack(const CallSite& site, StackTrace* out) = 0;
  virtual uint32_t processor() = 0;

  // A memory barrier on all threads (os/thread_barrier.h); false: it cannot be had.
  virtual bool may_issue_barrier() = 0;
  virtual bool issue_barrier() = 0;

  // There is something to give back; or only caches that threads may go idle with.
  virtual void want_worker() = 0;
  virtual void want_idle_caches_emptied() = 0;

  // The program misuses the object; may end the process. span: null if it is none of ours.
  virtual void report_misuse(const void* p, const Span* span, const char* what) = 0;
  // A sized delete with a size that the object cannot have.
  virtual void note_wrong_size(const void* p, const Span* span, size_t given) = 0;

 protected:
  ~World() = default;
};

}  // namespace llamalloc
