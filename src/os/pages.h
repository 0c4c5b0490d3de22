// SPDX-License-Identifier: Apache-2.0
// Address space and memory: the heap calls the system only through this interface.
//
//   reserve --> commit --> (touch: backed) --> discard --> (touch: backed with zeroes again)
//                                          --> uncommit --> commit --> ...
//
// Sizes and addresses are multiples of the system's page size; for reserve, of the huge page size.
// Every call may fail: it then returns null or false and has changed nothing; but of what is to be
// discarded, a part may be.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/units.h"
#include "os/system_facts.h"

namespace llamalloc {

// Huge pages, and mappings of huge pages, that the system has split into small pages since it
// started, for all processes.
struct Splits {
  uint64_t pages = 0;
  uint64_t mappings = 0;
  bool known = false;  // whether the system says it
};

// What became of small pages that were to be a huge one.
enum class Collapse : uint8_t {
  done,
  refused,  // they are small pages as before
  later,    // the system knows no such request (Linux before 6.1), but where huge pages are advised
            // it may do it by itself
};

class PageSource {
 public:
  // Address space without memory, aligned to `alignment` (a power of two), or null.
  virtual void* reserve(size_t bytes, size_t alignment) = 0;
  // Makes reserved space readable and writable; it reads as zero.
  virtual bool commit(void* address, size_t bytes) = 0;
  // Asks for huge pages behind the space, or (false) for none.
  virtual void advise_huge(void* address, size_t bytes, bool huge) = 0;
  // Replaces small pages by huge pages and keeps their contents.
  virtual Collapse collapse(void*, size_t) { return Collapse::done; }
  // Splits the huge page around the small page at `address`, and keeps its contents. Else what is
  // discarded of a huge page stays charged until the system splits it under pressure
  // (docs/release.md). False: the system cannot. It may also decline in silence: see splits().
  virtual bool split(void*) { return true; }
  // Opens a file in Linux.
  virtual Splits splits() { return {}; }
  // Gives the memory back, keeps the space; it reads as zero afterwards.
  virtual bool discard(void* address, size_t bytes) = 0;
  // As discard, but the space is then as it was before commit(), for systems that count what is
  // committed. Advice for it is forgotten.
  virtual bool uncommit(void* address, size_t bytes) { return discard(address, bytes); }
  // A new readable and writable mapping; unmap returns its address space and memory.
  virtual void* map(size_t bytes, size_t alignment) = 0;
  virtual bool unmap(void* address, size_t bytes) = 0;
  // Resizes a mapping made by map(), moving it if necessary; null: unchanged. One that is aligned
  // to a block stays so, and one that has huge pages to a huge page, unless address space is
  // scarce.
  virtual void* remap(void* address, size_t old_bytes, size_t new_bytes) = 0;
  // Moves memory of mappings to where another mapping was never touched, one huge page after the
  // other and then what is left; its address space is gone then. Returns how many bytes, from the
  // start on: less than asked for where the system refuses. What lies there need not survive.
  virtual size_t move(void*, size_t, void*) { return 0; }
  // Whether address space is there for more than what is in use: for that, and for mappings of
  // which a part has no memory. A simulation takes all of a mapping for memory.
  virtual bool can_move() { return false; }
  // How much of the range has memory behind it, in bytes; all of it where the system does not say.
  virtual size_t resident(const void*, size_t bytes) { return bytes; }
  // Gives the page that begins there memory again after a discard, as the first touch of it does.
  // Returns the processor time that this took.
  virtual Nanos fetch(void*) { return Nanos{250'000}; }
  // That the process has used so far, without the calling thread. One thread asks at a time.
  virtual Nanos processor_time() { return now(); }
  // The monotonic clock; the coarse one is cheaper and up to 4 ms behind.
  virtual Nanos now() = 0;
  virtual Nanos now_coarse() = 0;

 protected:
  ~PageSource() = default;
};

// The system that we run on. One object for the process, constant-initialised.
class SystemPages final : public PageSource {
 public:
  void* reserve(size_t bytes, size_t alignment) override;
  bool commit(void* address, size_t bytes) override;
  void advise_huge(void* address, size_t bytes, bool huge) override;
  Collapse collapse(void* address, size_t bytes) override;
  bool split(void* address) override;
  Splits splits() override;
  bool discard(void* address, size_t bytes) override;
  bool uncommit(void* address, size_t bytes) override;
  void* map(size_t bytes, size_t alignment) override;
  bool unmap(void* address, size_t bytes) override;
  void* remap(void* address, size_t old_bytes, size_t new_bytes) override;
  size_t move(void* from, size_t bytes, void* to) override;
  bool can_move() override;
  size_t resident(const void* address, size_t bytes) override;
  Nanos fetch(void* address) override;
  Nanos processor_time() override;
  Nanos now() override;
  Nanos now_coarse() override;

  // Once, by the library's constructor: which filter of system calls the process began with. Under
  // one that the program adds, nothing is asked that it need not allow. Limits stay what they were,
  // and of clocks only the monotonic one is read: the processor time goes on as if the process used
  // one processor.
  void start();
  // Whether the program added one since start(); false before. It may kill the process for any call
  // that the program itself does not make.
  bool is_filtered() const {
    return has_started_ && system_call_filter().is_newer_than(first_filter_);
  }

 private:
  bool is_space_limited(size_t bytes);

  SystemCallFilter first_filter_{};
  bool has_started_ = false;
  std::atomic<bool> space_is_limited_{false};
  std::atomic<int64_t> limits_read_{0};  // when
  Nanos used_{}, used_then_{};           // processor time as last told, and when
};
extern SystemPages system_pages;

}  // namespace llamalloc
