// SPDX-License-Identifier: Apache-2.0
// A policy is a simulated allocator: it computes addresses for requests and accounts for its
// memory.
//
// Invariant (conservation), for every policy at every moment:
//   live bytes + the sum of losses() == footprint() in pages of 2 MiB
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/lifetime_class.h"
#include "base/options.h"
#include "base/units.h"
#include "learning/gate.h"
#include "sim/direct_space.h"
#include "sim/page_ledger.h"
#include "sim/trace_input.h"

namespace llamalloc::sim {

struct Request {
  uint64_t size;  // bytes, at least 1
  Nanos now;
  uint32_t thread;
  LifetimeClass lifetime;  // as predicted
  uint8_t alignment_log2;
  uint32_t context = 0;  // number of the stack and size bucket that it was predicted by
  uint32_t stack = 0;    // of the trace; only policies that learn look at it

  uint64_t alignment() const { return uint64_t{1} << alignment_log2; }
};

// What the gate of a policy that learns decided, and when.
struct GateNote {
  uint64_t time = 0;  // nanoseconds of the trace
  bool placing = false;
  bool late = false;
  GateVerdict verdict = GateVerdict::untried;
  std::string says;
};

// Bytes of the footprint that hold no live object, by cause.
struct Losses {
  uint64_t rounding = 0;       // allocated size minus requested size
  uint64_t free_slots = 0;     // in spans in use (also lines, and gaps smaller than a block)
  uint64_t free_blocks = 0;    // in huge pages in use
  uint64_t empty_pages = 0;    // huge pages not given back yet
  uint64_t thread_caches = 0;  // free, in a thread's cache
  uint64_t metadata = 0;

  uint64_t sum() const {
    return rounding + free_slots + free_blocks + empty_pages + thread_caches + metadata;
  }
};

// What releasing did, as far as the policy tells. Bytes and pages.
struct ReleaseReport {
  uint64_t realized = 0;  // fragmentation over 5 minutes: the mean over the samples
  uint64_t average = 0;   // free memory of huge pages: the same
  uint64_t pages_broken = 0, bytes_broken = 0, mended = 0, refetched = 0;
  uint64_t skipped = 0, right = 0, wrong = 0, broken_by_rate = 0;
  uint64_t hold_empty = 0, hold_mappings = 0;  // nanoseconds, at the end
};

struct Footprint {
  uint64_t huge = 0;      // bytes in pages of 2 MiB, direct mappings and metadata included
  uint64_t small = 0;     // the same in 4 KiB pages touched
  uint64_t resident = 0;  // with huge pages where the heap wants them: what a process would show
  uint64_t covered = 0;   // the part of resident that is on huge pages
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Offset of the object; kNoAddress if the simulation's address space is used up.
  virtual uint64_t allocate(const Request& request) = 0;
  // bytes: the last requested size.
  virtual void free(uint64_t address, uint64_t bytes, uint32_t thread, Nanos now) = 0;
  // No further events of the thread will come.
  virtual void end_thread(uint32_t) {}
  // The object's new offset; by default it moves.
  virtual uint64_t resize(uint64_t address, uint64_t bytes, const Request& request) {
    const uint64_t moved = allocate(request);
    if (moved != kNoAddress) free(address, bytes, request.thread, request.now);
    return moved;
  }
  // The coarse clock of the system (os/pages.h): its period, and the time of one of its ticks.
  virtual void set_ticks(Nanos, Nanos) {}
  // The background work begins so much later, and all of it with that.
  virtual void delay_work(Nanos) {}
  // Does the background work.
  virtual void advance(Nanos now) = 0;
  // When the background work is due again, if it was last done at `last`; any call may make it due
  // earlier.
  virtual Nanos next_work(Nanos last) const { return last + Nanos::millis(100); }
  virtual Losses losses() = 0;
  // Whether it chooses classes itself. Then the class of the last object that it placed, and what
  // its gate decided.
  virtual bool learns() const { return false; }
  // Before the first request: what the training of a model proved of placement.
  virtual void take_evidence(const GateKept&) {}
  virtual LifetimeClass chosen() const { return LifetimeClass::mixed; }
  virtual std::vector<GateNote> gate_notes() const { return {}; }
  // After the last event; true where nothing is to be kept.
  virtual bool finish(Nanos, std::string*) { return true; }
  // At this moment; counts from the start.
  virtual ReleaseReport releases() { return {}; }
  // Options of the allocator, as in LLAMALLOC_CONF. False, with `error`: there are none of that
  // kind.
  virtual bool configure(const std::string&, std::string* error) {
    *error = "only the policy llamalloc has options";
    return false;
  }
  virtual bool is_consistent() { return ledger().is_consistent(); }

  virtual PageLedger& ledger() = 0;
  virtual const DirectSpace& direct() const = 0;
  Footprint footprint() { return footprint(losses().metadata); }
  Footprint footprint(uint64_t metadata) {
    const PageLedger& pages = ledger();
    const uint64_t other = direct().bytes() + metadata;
    return {pages.backed_pages() * kHugePageSize + other, pages.touched_bytes() + other,
            pages.resident_bytes() + other, pages.huge_bytes() + direct().huge_bytes()};
  }
};

// The names that make_policy takes, and what they are.
struct PolicyName {
  const char* name;
  const char* meaning;
};
inline constexpr PolicyName kPolicyNames[] = {
    {"llamalloc", "the product's own heap, groups of pages by predicted lifetime"},
    {"paper-k2", "the paper's: closed spans of lines, deadlines of 2 x the class"},
    {"paper-k4", "the paper's with deadlines of 4 x the class"},
    {"slabs-fullest", "no lifetimes; fullest span and huge page first"},
    {"slabs-lowest", "no lifetimes; lowest span and huge page first (as tcmalloc's back end)"},
    {"first-fit", "no lifetimes; lowest gap that is large enough, 16-byte granules"},
    {"best-fit", "no lifetimes; smallest gap that is large enough, 16-byte granules"},
};
// Null for a name that is not in kPolicyNames, or where address space cannot be reserved.
std::unique_ptr<Policy> make_policy(std::string_view name);

// A process that learns while it runs (option `learn`).
struct LearningOptions {
  Options process;    // sample_interval, segregate and others of contracts/options.def
  std::string state;  // a file that earlier runs left; empty: none
  std::string keep;   // where the state goes in the end; empty: nowhere
};
// The product, learning from the trace. Null: `error` says why. input must outlive it.
std::unique_ptr<Policy> make_learning_policy(TraceInput& input, const LearningOptions& options,
                                             std::string* error);

// Empty huge pages go back to the system after this time (the product's release_delay).
inline constexpr Nanos kReleaseDelay = Nanos::seconds(1);

}  // namespace llamalloc::sim
