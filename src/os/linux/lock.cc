// SPDX-License-Identifier: Apache-2.0
#include "os/lock.h"

#include "base/blocked_signals.h"
#include "base/check.h"
#include "os/linux/futex.h"

namespace llamalloc {
namespace {

constinit thread_local bool holds_all __attribute__((tls_model("initial-exec"))) = false;

constinit thread_local const BlockedSignals* signals_of_waits
    __attribute__((tls_model("initial-exec"))) = nullptr;

// 124 pauses in all: a microsecond to five, by processor.
constexpr int kMostPauses = 16, kSpinsOfALength = 4;

}  // namespace

constinit thread_local uint32_t locks_of_this_thread __attribute__((tls_model("initial-exec"))) = 0;
constinit thread_local uint32_t waits_of_this_thread __attribute__((tls_model("initial-exec"))) = 0;

#ifdef LLAMALLOC_CHECK_BUILD
namespace {

// By rank, the highest lock that the thread holds; null: none.
constinit thread_local const Lock* highest[kLockRanks] __attribute__((tls_model("initial-exec"))){};

[[noreturn]] void fail(LockRank taken, int held_rank) {
  print_line("a thread that holds a lock of rank %s takes one of rank %s (os/lock_rank.h)",
             kLockRankRows[held_rank].name, row(taken).name);
  check_failed(__FILE__, __LINE__, "locks are taken in rising order");
}

}  // namespace

void Lock::check_order() const {
  if (holds_all) return;
  const int rank = static_cast<int>(rank_);
  for (int r = rank + 1; r < kLockRanks; ++r)
    if (highest[r] != nullptr) fail(rank_, r);
  if (highest[rank] != nullptr && (!row(rank_).several || highest[rank] >= this)) fail(rank_, rank);
}

void Lock::note_taken() {
  const Lock** link = &highest[static_cast<int>(rank_)];
  while (*link > this) link = &(*link)->below_;
  below_ = *link;
  *link = this;
}

// What a fork made it forget it may still unlock.
void Lock::note_released() const {
  const Lock** link = &highest[static_cast<int>(rank_)];
  while (*link > this) link = &(*link)->below_;
  if (*link == this) *link = below_;
}

void Lock::forget_rank() const {
  highest[static_cast<int>(rank_)] = nullptr;
}
#endif

void Lock::forget_order() {
#ifdef LLAMALLOC_CHECK_BUILD
  for (const Lock*& lock : highest) lock = nullptr;
#endif
}

void Lock::this_thread_holds_none() {
  locks_of_this_thread = 0;
  forget_order();
}

void Lock::this_thread_holds_all(bool yes) {
  holds_all = yes;
}
bool Lock::this_thread_holds_all() {
  return holds_all;
}

bool Lock::lock_slow() {
  if (holds_all) {
    --locks_of_this_thread;
    return false;
  }
  ++waits_of_this_thread;
  // Ever longer pauses: where many wait, most of them leave the line of the lock alone.
  for (int pauses = 1; pauses <= kMostPauses; pauses *= 2) {
    for (int i = 0; i < kSpinsOfALength; ++i) {
      for (int p = 0; p < pauses; ++p) __builtin_ia32_pause();
      if (state_.load(std::memory_order_relaxed) == 0 && take()) return true;
    }
  }
  while (state_.exchange(2, std::memory_order_acquire) != 0) {
    if (signals_of_waits != nullptr) signals_of_waits->let_in();
    futex_wait(state_, 2, nullptr);
    if (signals_of_waits != nullptr) signals_of_waits->block_again();
  }
  return true;
}

void Lock::this_thread_lets_in(const BlockedSignals* signals) {
  signals_of_waits = signals;
}

void Lock::wake() {
  futex_wake(state_, 1);
}

}  // namespace llamalloc
