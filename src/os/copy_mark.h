// SPDX-License-Identifier: Apache-2.0
// Tells a process that runs on a copy of the memory in which the mark was set: a child of fork, but
// also of _Fork and of bare system calls, which run no fork handlers. A child of vfork, or of clone
// with CLONE_VM, has that memory itself: this is no copy.
//
//   set() --fork--> parent: no copy
//            \----> child:  a copy --set()--> no copy
#pragma once

#include <atomic>
#include <cstdint>

namespace llamalloc {

class CopyMark {
 public:
  // False: there is no memory, or the system cannot tell (Linux before 4.14). Then nothing ever is
  // a copy. Keeps errno.
  bool set();
  bool is_in_copy() const {
    // Pairs with the release in set(): whoever sees the word sees that it is 1.
    const std::atomic<uint32_t>* word = word_.load(std::memory_order_acquire);
    return word != nullptr && word->load(std::memory_order_relaxed) == 0;
  }

 private:
  std::atomic<std::atomic<uint32_t>*> word_{nullptr};  // in a page that reads as 0 in a child
};

}  // namespace llamalloc
