// SPDX-License-Identifier: Apache-2.0
#include "os/sleeper.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/units.h"
#include "os/linux/futex.h"
#include "os/linux/unwind_stack.h"
#include "os/own_stack.h"

namespace llamalloc {
namespace {

constexpr size_t kStatusRoom = 8192;
constexpr size_t kStackPart = 16384;

// What programs wait in. Not write, which prints our lines, nor what maps memory.
constexpr int kWaits[] = {
    SYS_accept,        SYS_accept4,         SYS_clock_nanosleep,
    SYS_connect,       SYS_epoll_pwait,     SYS_epoll_pwait2,
    SYS_epoll_wait,    SYS_futex,           SYS_io_getevents,
    SYS_io_pgetevents, SYS_io_uring_enter,  SYS_mq_timedreceive,
    SYS_msgrcv,        SYS_nanosleep,       SYS_pause,
    SYS_poll,          SYS_ppoll,           SYS_pselect6,
    SYS_read,          SYS_readv,           SYS_recvfrom,
    SYS_recvmmsg,      SYS_recvmsg,         SYS_restart_syscall,
    SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_select,
    SYS_semop,         SYS_semtimedop,      SYS_sendmsg,
    SYS_sendto,        SYS_wait4,           SYS_waitid,
};

int open_of(uint32_t thread_id, const char* file) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/task/%u/%s", thread_id, file);
  return open(path, O_RDONLY | O_CLOEXEC);
}

size_t read_text(int fd, char* text, size_t room) {
  const ssize_t n = pread(fd, text, room - 1, 0);
  text[n > 0 ? n : 0] = 0;
  return n > 0 ? static_cast<size_t>(n) : 0;
}

// A number at *at, decimal or, after 0x, hexadecimal; moves behind it and the space before it.
bool parse_number(const char** at, uint64_t* out) {
  const char* c = *at;
  while (*c == ' ' || *c == '\t') ++c;
  const bool hex = c[0] == '0' && c[1] == 'x';
  if (hex) c += 2;
  const char* first = c;
  for (*out = 0;; ++c) {
    const int digit = *c >= '0' && *c <= '9'          ? *c - '0'
                      : hex && *c >= 'a' && *c <= 'f' ? *c - 'a' + 10
                                                      : -1;
    if (digit < 0) break;
    *out = *out * (hex ? 16 : 10) + static_cast<uint64_t>(digit);
  }
  *at = c;
  return c != first;
}

bool find_number(const char* text, const char* name, uint64_t* out, const char** end = nullptr) {
  const char* found = strstr(text, name);
  if (found == nullptr) return false;
  const char* at = found + strlen(name);
  const bool good = parse_number(&at, out);
  if (end != nullptr) *end = at;
  return good;
}

// cs, gs, fs and ss as the kernel saves them in a signal frame: gs and fs as zero. They are the
// same for all threads of a 64-bit program.
uint64_t saved_segments() {
#if defined(__x86_64__)
  uint64_t code, stack;
  asm("mov %%cs, %0\n\tmov %%ss, %1" : "=r"(code), "=r"(stack));
  return (code & 0xffff) | (stack & 0xffff) << 48;
#else
  return 0;
#endif
}

}  // namespace

SleeperLook::SleeperLook(uint32_t thread_id, uintptr_t stack_high)
    : thread_id_(thread_id),
      stack_high_(stack_high),
      syscall_fd_(open_of(thread_id, "syscall")),
      status_fd_(open_of(thread_id, "status")) {}

SleeperLook::~SleeperLook() {
  if (syscall_fd_ >= 0) close(syscall_fd_);
  if (status_fd_ >= 0) close(status_fd_);
}

// "NUMBER ARGUMENT*6 SP PC", "-1 SP PC" outside of a system call, or "running".
bool SleeperLook::read_place(Place* out) const {
  char text[256];
  if (read_text(syscall_fd_, text, sizeof(text)) == 0) return false;
  uint64_t numbers[9] = {};
  const char* at = text;
  size_t count = 0;
  while (count < 9 && parse_number(&at, &numbers[count])) ++count;
  *out = {static_cast<int64_t>(numbers[0]), numbers[7], numbers[8]};
  return count == 9;
}

// False too if /proc numbers threads otherwise than gettid: NSpid then has several numbers.
bool SleeperLook::read_switches(uint64_t* out) const {
  char text[kStatusRoom];
  if (read_text(status_fd_, text, sizeof(text)) == 0) return false;
  uint64_t id, voluntary, forced;
  const char* end = nullptr;
  if (!find_number(text, "\nNSpid:", &id, &end) || id != thread_id_ || *end != '\n') return false;
  if (!find_number(text, "\nvoluntary_ctxt_switches:", &voluntary) ||
      !find_number(text, "\nnonvoluntary_ctxt_switches:", &forced))
    return false;
  *out = voluntary + forced;
  return true;
}

bool SleeperLook::is_in_program(const Place& place) const {
  const bool waits =
      std::find(std::begin(kWaits), std::end(kWaits), place.call) != std::end(kWaits);
  const uintptr_t ours = futex_wait_pc();
  return waits && ours != 0 && place.pc != ours && place.sp < stack_high_ &&
         stack_high_ - place.sp <= kDeepest && place.sp % sizeof(uint64_t) == 0;
}

// By a system call, as the thread may end and its stack with it. What cannot be read counts as one.
bool SleeperLook::has_signal_frame(uintptr_t low) const {
  const uint64_t segments = saved_segments();
  uint64_t words[kStackPart / sizeof(uint64_t)];
  while (low < stack_high_) {
    const size_t bytes = std::min(kStackPart, stack_high_ - low) & ~(sizeof(uint64_t) - 1);
    if (bytes == 0) return false;
    const iovec to{words, bytes};
    const iovec from{reinterpret_cast<void*>(low), bytes};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != static_cast<ssize_t>(bytes)) return true;
    uint64_t* const end = words + bytes / sizeof(uint64_t);
    if (std::find(words, end, segments) != end) return true;
    low += bytes;
  }
  return false;
}

bool SleeperLook::seems_asleep() const {
  Place place;
  return read_place(&place) && is_in_program(place);
}

bool SleeperLook::is_asleep() const {
  uint64_t before, after;
  Place place, again;
  return read_switches(&before) && read_place(&place) && is_in_program(place) &&
         !has_signal_frame(place.sp) && read_place(&again) && read_switches(&after) &&
         before == after;
}

uintptr_t own_stack_end() {
  if (syscall(SYS_gettid) != getpid())
    return reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  return main_stack_end();
}

bool leave_descriptors() {
  return syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0;
}

bool system_calls_are_filtered() {
  return prctl(PR_GET_SECCOMP) != 0;
}

}  // namespace llamalloc
