// SPDX-License-Identifier: Apache-2.0
// What the engine needs from its surroundings besides memory and clock (os/pages.h). Implemented
// for a process by runtime/process_world.h, for a simulation by sim/product_policy.h.
#pragma once

#include "base/stack_trace.h"
#include "engine/request.h"
#include "engine/thread_cache.h"
#include "placement/placement.h"
#include "release/limit_watch.h"

namespace llamalloc {

class World {
 public:
  // The class and page group of an allocation. Called only for threads that use predictions.
  // recheck: the context's cached class is due for a second evaluation.
  virtual Placement::Choice choose(ThreadCache& cache, const Request& request, bool recheck) = 0;
  // For a sample: the stack of the calling thread, from the request's call site outward, and the
  // processor that it runs on.
  virtual void trace_stack(const CallSite& site, StackTrace* out) = 0;
  virtual uint32_t processor() = 0;

  // The calling thread, which has no cache yet. False: it is past its exit handlers, and shall not
  // adopt one.
  virtual bool may_adopt() { return true; }
  // Sets thread_id, own_stack and rng of the cache that it is about to adopt.
  virtual void introduce_thread(ThreadCache& cache) = 0;
  // Whether Engine::end_thread will be called for it. False: not known yet; then the worker must
  // not write to its slot, and the thread asks again when it is called (Engine::tick).
  virtual bool will_tell_end() { return true; }

  // False: that thread ended without telling us (by the system call exit), and the stack that its
  // slot lay in may be gone.
  virtual bool thread_exists(uint32_t thread_id) = 0;

  // A memory barrier on all threads (os/thread_barrier.h); false: not available.
  virtual bool may_issue_barrier() = 0;
  virtual void prepare_barrier() = 0;
  virtual bool issue_barrier() = 0;

  // A sampled object that stands for `weight` objects, and its end.
  virtual void note_sample(const void*, size_t, double /*weight*/) {}
  virtual void note_sample_end(const void*) {}

  // Wakes the worker: there is memory to return. The second: only caches of threads that may go
  // idle, so the worker need not come at once.
  virtual void want_worker() = 0;
  virtual void want_idle_caches_emptied() = 0;
  // Wakes it from any sleep.
  virtual void call_worker() = 0;

  // How near a memory limit is. May take the time of a few system calls; the worker asks once a
  // second at most.
  virtual Pressure pressure(Nanos) { return {}; }

  // The program misuses the object; may abort the process. span: null if the object is not ours.
  virtual void report_misuse(const void* p, const Span* span, const char* what) = 0;
  // A sized delete with a size that the object cannot have.
  virtual void note_wrong_size(const void* p, const Span* span, size_t given) = 0;

 protected:
  ~World() = default;
};

}  // namespace llamalloc
