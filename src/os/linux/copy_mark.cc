// SPDX-License-Identifier: Apache-2.0
#include "os/copy_mark.h"

#include <sys/mman.h>

#include <new>

#include "base/errno_keeper.h"
#include "base/units.h"

namespace llamalloc {

bool CopyMark::set() {
  const ErrnoKeeper keep;
  std::atomic<uint32_t>* word = word_.load(std::memory_order_relaxed);
  if (word == nullptr) {
    void* page =
        mmap(nullptr, kSmallPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    if (madvise(page, kSmallPage, MADV_WIPEONFORK) != 0) return munmap(page, kSmallPage), false;
    word = new (page) std::atomic<uint32_t>(0);
  }
  word->store(1, std::memory_order_relaxed);
  word_.store(word, std::memory_order_release);
  return true;
}

}  // namespace llamalloc
