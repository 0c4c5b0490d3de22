// SPDX-License-Identifier: Apache-2.0
#include "os/pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/errno_keeper.h"
#include "os/clock.h"
#include "os/descriptor.h"
#include "os/linux/read_at.h"

namespace llamalloc {
namespace {

// Memory, other than space, is charged: so the system refuses more than it could ever have. And it
// begins as high as it can, so that the system makes one mapping of it and of what came before.
void* map_aligned(size_t bytes, size_t alignment, int protection) {
  const size_t slack = alignment > kSmallPage ? alignment : 0;
  if (bytes + slack < bytes) return nullptr;
  const bool space = protection == PROT_NONE;
  const int charge = space ? MAP_NORESERVE : 0;
  void* raw = mmap(nullptr, bytes + slack, protection, MAP_PRIVATE | MAP_ANONYMOUS | charge, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const size_t start = reinterpret_cast<size_t>(raw);
  const size_t aligned = space ? align_up(start, alignment) : align_down(start + slack, alignment);
  if (aligned > start) munmap(raw, aligned - start);
  const size_t tail = start + slack - aligned;
  if (tail) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  return reinterpret_cast<void*>(aligned);
}

bool is_limited(__rlimit_resource resource) {
  rlimit limit;
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// New pages in the place of others. Space that could not be mapped again is taken back, so that
// nobody else finds it free: older kernels unmap before they refuse.
[[gnu::noinline]] bool map_over(void* address, size_t bytes, int protection) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (mmap(address, bytes, protection, kFlags | MAP_FIXED, -1, 0) == address) return true;
  void* held = mmap(address, bytes, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
  if (held != address && held != MAP_FAILED) munmap(held, bytes);  // before Linux 4.17: a hint
  return held == address && protection == PROT_NONE;
}

// Of a line "name value" of /proc/vmstat; false: it has another name.
bool read_count(const char* line, const char* name, uint64_t* out) {
  const size_t length = strlen(name);
  if (strncmp(line, name, length) != 0) return false;
  uint64_t value = 0;
  for (line += length; *line >= '0' && *line <= '9'; ++line)
    value = value * 10 + static_cast<uint64_t>(*line - '0');
  *out = value;
  return true;
}

// Calls f for each whole line of the text, and moves what is left of it to its start. Returns the
// length of that.
template <typename F>
size_t each_line(char* text, F&& f) {
  char* line = text;
  for (char* end; (end = strchr(line, '\n')) != nullptr; line = end + 1) f(line);
  const size_t begun = strlen(line);
  memmove(text, line, begun);
  return begun;
}

}  // namespace

constinit SystemPages system_pages;

void* SystemPages::reserve(size_t bytes, size_t alignment) {
  const ErrnoKeeper keep;
  return map_aligned(bytes, alignment, PROT_NONE);
}

bool SystemPages::commit(void* address, size_t bytes) {
  const ErrnoKeeper keep;
  if (mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0) return true;
  if (errno == ENOMEM) return false;
  return map_over(address, bytes, PROT_READ | PROT_WRITE);  // a sandbox refuses mprotect
}

void SystemPages::advise_huge(void* address, size_t bytes, bool huge) {
  const ErrnoKeeper keep;
  madvise(address, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

// Newer kernels say EINVAL, too, of a range that they never collapse. But they have nothing against
// no bytes.
Collapse SystemPages::collapse(void* address, size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, Linux 6.1; older ones say EINVAL
  const ErrnoKeeper keep;
  if (madvise(address, bytes, kCollapse) == 0) return Collapse::done;
  const bool known = errno != EINVAL || madvise(address, 0, kCollapse) == 0;
  return known ? Collapse::refused : Collapse::later;
}

bool SystemPages::split(void* address) {
  constexpr int kCold = 20;  // MADV_COLD, Linux 5.4; older ones say EINVAL
  const ErrnoKeeper keep;
  if (madvise(address, kSmallPage, kCold) == 0) return true;
  return errno == EINVAL && madvise(address, kSmallPage, MADV_FREE) == 0;
}

// In pieces: the caller of malloc_trim may have a stack of 16 KiB.
Splits SystemPages::splits() {
  constexpr size_t kRoom = 2048;
  const ErrnoKeeper keep;
  char text[kRoom];
  if (refuses_filtered_call()) return {};
  const int fd = off_standard(open("/proc/vmstat", O_RDONLY | O_CLOEXEC));
  if (fd < 0) return {};
  Splits splits;
  bool pages = false, mappings = false;
  size_t begun = 0, from = 0;
  for (ssize_t n; (n = read_at(fd, text + begun, kRoom - 1 - begun, from)) > 0;) {
    from += static_cast<size_t>(n);
    text[begun + static_cast<size_t>(n)] = 0;
    begun = each_line(text, [&](const char* line) {
      pages |= read_count(line, "thp_split_page ", &splits.pages);
      mappings |= read_count(line, "thp_split_pmd ", &splits.mappings);
    });
  }
  close_read(fd);
  splits.known = pages && mappings;
  return splits;
}

bool SystemPages::discard(void* address, size_t bytes) {
  constexpr int kTries = 16;
  const ErrnoKeeper keep;
  for (int tries = kTries; tries > 0; --tries) {
    if (madvise(address, bytes, MADV_DONTNEED) == 0) return true;
    if (errno != EAGAIN) return false;
  }
  return false;
}

bool SystemPages::uncommit(void* address, size_t bytes) {
  const ErrnoKeeper keep;
  return map_over(address, bytes, PROT_NONE);
}

void* SystemPages::map(size_t bytes, size_t alignment) {
  const ErrnoKeeper keep;
  return map_aligned(bytes, alignment, PROT_READ | PROT_WRITE);
}

bool SystemPages::unmap(void* address, size_t bytes) {
  const ErrnoKeeper keep;
  return munmap(address, bytes) == 0;
}

void* SystemPages::remap(void* address, size_t old_bytes, size_t new_bytes) {
  const ErrnoKeeper keep;
  void* moved = mremap(address, old_bytes, new_bytes, 0);
  if (moved != MAP_FAILED) return moved;
  if (errno != ENOMEM) return nullptr;  // nor would it be moved
  const auto start = reinterpret_cast<size_t>(address);
  const bool huge = new_bytes >= kHugePageSize && start % kHugePageSize == 0;
  void* place = nullptr;
  if (start % kBlockSize == 0 && !is_space_limited(new_bytes))
    place = map_aligned(new_bytes, huge ? kHugePageSize : kBlockSize, PROT_NONE);
  if (place != nullptr) {
    moved = mremap(address, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (moved != MAP_FAILED) return moved;
    // Where the kernel began and had no memory, the place may be somebody else's by now. The cause
    // may be a limit that is new: so this happens once.
    if (errno != ENOMEM) return munmap(place, new_bytes), nullptr;
    space_is_limited_.store(true, std::memory_order_relaxed);
  }
  moved = mremap(address, old_bytes, new_bytes, MREMAP_MAYMOVE);
  return moved == MAP_FAILED ? nullptr : moved;
}

// By huge pages, as what was moved before is several mappings to older kernels; what is less is
// one. The kernel looks whether it may before it unmaps the place, but whether all is one mapping
// only afterwards (before Linux 6.17). Should it fail all the same, the place is mapped again.
size_t SystemPages::move(void* from, size_t bytes, void* to) {
  const ErrnoKeeper keep;
  size_t done = 0;
  while (done < bytes) {
    const size_t step = std::min(bytes - done, kHugePageSize);
    void* const place = static_cast<char*>(to) + done;
    void* const moved =
        mremap(static_cast<char*>(from) + done, step, step, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (moved != place) {
      map_over(place, step, PROT_READ | PROT_WRITE);
      break;
    }
    done += step;
  }
  return done;
}

// A place to move to would count, too, beside what moves there; and where what moves passes a limit
// on writable memory, nobody could say whether the kernel has left the place (Linux 6.17). What was
// read within a second holds, except where a mistake would be large.
bool SystemPages::is_space_limited(size_t bytes) {
  constexpr Nanos kHolds = Nanos::seconds(1);
  constexpr size_t kLarge = size_t{32} << 20;
  const int64_t now = now_coarse().n;
  if (bytes >= kLarge || now - limits_read_.load(std::memory_order_relaxed) >= kHolds.n) {
    limits_read_.store(now, std::memory_order_relaxed);
    if (!is_filtered())
      space_is_limited_.store(is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA),
                              std::memory_order_relaxed);
  }
  return space_is_limited_.load(std::memory_order_relaxed);
}

bool SystemPages::can_move() {
  const ErrnoKeeper keep;
  return !is_space_limited(0);
}

void SystemPages::start() {
  first_filter_ = system_call_filter();
  has_started_ = true;
  limits_read_.store(0, std::memory_order_relaxed);
  can_move();
}

size_t SystemPages::resident(const void* address, size_t bytes) {
  constexpr size_t kStep = 1024;  // pages a call
  const ErrnoKeeper keep;
  size_t pages = 0;
  for (size_t done = 0; done < bytes; done += kStep * kSmallPage) {
    unsigned char present[kStep];
    const size_t step = bytes - done < kStep * kSmallPage ? bytes - done : kStep * kSmallPage;
    char* start = const_cast<char*>(static_cast<const char*>(address)) + done;
    if (mincore(start, step, present) != 0) return bytes;
    for (size_t i = 0; i < (step + kSmallPage - 1) / kSmallPage; ++i) pages += present[i] & 1u;
  }
  return pages * kSmallPage;
}

// A word that is zero stays zero; volatile, so that it is written all the same.
Nanos SystemPages::fetch(void* address) {
  const clockid_t clock = is_filtered() ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
  const Nanos before = read_clock(clock);
  *static_cast<volatile char*>(address) = 0;
  return read_clock(clock) - before;
}

// If it stood still under a filter, the process would seem to be at rest for ever, and fetching and
// lookups to cost all that it uses.
Nanos SystemPages::processor_time() {
  const Nanos at = now();
  if (!is_filtered())
    used_ = read_clock(CLOCK_PROCESS_CPUTIME_ID) - read_clock(CLOCK_THREAD_CPUTIME_ID);
  else if (used_then_.n != 0)
    used_ = used_ + (at - used_then_);
  used_then_ = at;
  return used_;
}
Nanos SystemPages::now() {
  return read_clock(CLOCK_MONOTONIC);
}
Nanos SystemPages::now_coarse() {
  return read_clock(CLOCK_MONOTONIC_COARSE);
}

}  // namespace llamalloc
