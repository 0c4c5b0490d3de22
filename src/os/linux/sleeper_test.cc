// SPDX-License-Identifier: Apache-2.0
#include "os/sleeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "os/lock.h"

namespace llamalloc {
namespace {

// A thread that does something until it is told to end, and what a look at it tells.
class Subject {
 public:
  explicit Subject(std::function<void(Subject&)> act)
      : thread_([this, act] {
          stack_end = own_stack_end();
          id = static_cast<uint32_t>(syscall(SYS_gettid));
          act(*this);
        }) {
    EXPECT_EQ(piped_, 0);
    while (id == 0) usleep(100);
  }
  ~Subject() {
    end();
    thread_.join();
  }
  void end() {
    stop = true;
    if (write(ends[1], "x", 1) != 1) abort();
  }
  void read_until_end() {
    char byte;
    while (read(ends[0], &byte, 1) != 1) {
    }
  }
  // It takes the thread a while to get where it is going.
  bool comes_to_sleep() {
    for (int i = 0; i < 2000; ++i, usleep(1000))
      if (SleeperLook(id, stack_end).is_asleep()) return true;
    return false;
  }
  // Whether it was so at any of many looks.
  bool ever_sleeps() {
    for (int i = 0; i < 100; ++i, usleep(500))
      if (SleeperLook(id, stack_end).is_asleep()) return true;
    return false;
  }
  void wait_until_in(const char* call) {
    char path[64], text[64] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%u/syscall", id.load());
    while (strncmp(text, call, strlen(call)) != 0) {
      const int fd = open(path, O_RDONLY);
      const ssize_t n = read(fd, text, sizeof(text) - 1);
      text[n > 0 ? n : 0] = 0;
      close(fd);
      usleep(100);
    }
  }

  std::atomic<bool> stop{false};
  std::atomic<uint32_t> id{0};
  uintptr_t stack_end = 0;
  int ends[2];

 private:
  const int piped_ = pipe(ends);
  std::thread thread_;  // last: it starts with everything above in place
};

bool can_look() {
  char text[8];
  const int fd = open("/proc/thread-self/syscall", O_RDONLY);
  const bool can = fd >= 0 && read(fd, text, sizeof(text)) > 0;
  if (fd >= 0) close(fd);
  return can;
}

#define SKIP_WITHOUT_PROC() \
  if (!can_look()) GTEST_SKIP() << "/proc/self/task/TID/syscall cannot be read here"

// It calls handlers when it sees fit, not where the signal came, and its threads are never seen
// asleep, which is the safe error.
#ifdef __SANITIZE_THREAD__
#define SKIP_WITHOUT_SIGNALS() GTEST_SKIP() << "ThreadSanitizer calls the handlers"
#define SKIP_WITHOUT_SLEEP() GTEST_SKIP() << "under ThreadSanitizer no thread is seen asleep"
#else
#define SKIP_WITHOUT_SIGNALS() SKIP_WITHOUT_PROC()
#define SKIP_WITHOUT_SLEEP() SKIP_WITHOUT_PROC()
#endif

TEST(Sleeper, IsSeenInTheProgramsOwnCalls) {
  SKIP_WITHOUT_SLEEP();
  const std::function<void(Subject&)> sleeps[] = {
      [](Subject& s) { s.read_until_end(); },
      [](Subject& s) {
        pollfd in{s.ends[0], POLLIN, 0};
        poll(&in, 1, -1);
      },
      [](Subject& s) {
        timespec long_time{100, 0};
        while (!s.stop) ppoll(nullptr, 0, &(long_time = {0, 50'000'000}), nullptr);
      },
      [](Subject& s) {
        while (!s.stop) usleep(50'000);
      }};
  for (const auto& sleep : sleeps) {
    Subject subject(sleep);
    EXPECT_TRUE(subject.comes_to_sleep());
  }
}

TEST(Sleeper, IsNoThreadThatRuns) {
  Subject subject([](Subject& s) {
    while (!s.stop) {
    }
  });
  EXPECT_FALSE(subject.ever_sleeps());
}

TEST(Sleeper, IsNoThreadThatWaitsForOurLocks) {
  SKIP_WITHOUT_PROC();
  Lock lock;
  lock.lock();
  Subject subject([&](Subject&) { LockGuard guard(lock); });
  subject.wait_until_in("202 ");  // futex
  EXPECT_FALSE(subject.ever_sleeps());
  lock.unlock();
}

TEST(Sleeper, IsOneThatWaitsForALockOfTheProgram) {
  SKIP_WITHOUT_SLEEP();
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  Subject subject([&](Subject&) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
  });
  EXPECT_TRUE(subject.comes_to_sleep());
  pthread_mutex_unlock(&mutex);
}

Subject* interrupted;
void sleep_in_handler(int) {
  interrupted->read_until_end();
}

void interrupt_in_handler(bool alternate_stack) {
  struct sigaction action{};
  action.sa_handler = sleep_in_handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, nullptr);
  std::vector<char> other(size_t{64} << 10);
  Subject subject([&](Subject& s) {
    const stack_t stack{other.data(), 0, other.size()};
    stack_t before{};  // AddressSanitizer frees its own at the thread's end
    if (alternate_stack) sigaltstack(&stack, &before);
    interrupted = &s;
    syscall(SYS_tgkill, getpid(), s.id.load(), SIGUSR2);
    if (alternate_stack) sigaltstack(&before, nullptr);
  });
  subject.wait_until_in("0 ");  // read
  EXPECT_FALSE(subject.ever_sleeps());
}

TEST(Sleeper, IsNoThreadInASignalHandler) {
  SKIP_WITHOUT_SIGNALS();
  interrupt_in_handler(false);
}
TEST(Sleeper, IsNoThreadInASignalHandlerOnAStackOfItsOwn) {
  SKIP_WITHOUT_SIGNALS();
  interrupt_in_handler(true);
}

TEST(Sleeper, IsNoThreadDeepInItsStack) {
  SKIP_WITHOUT_PROC();
  Subject subject([](Subject& s) {
    volatile char deep[SleeperLook::kDeepest];
    deep[0] = 0;
    s.read_until_end();
    s.stop = deep[0] != 0;
  });
  subject.wait_until_in("0 ");
  EXPECT_FALSE(subject.ever_sleeps());
}

TEST(Sleeper, IsNoThreadThatEnded) {
  uint32_t id;
  uintptr_t end;
  {
    Subject subject([](Subject&) {});
    id = subject.id;
    end = subject.stack_end;
  }
  EXPECT_FALSE(SleeperLook(id, end).seems_asleep());
  EXPECT_FALSE(SleeperLook(id, end).is_asleep());
}

TEST(Sleeper, LooksFromAThreadWithoutTheProcessDescriptors) {
  const int kept = open("/dev/null", O_RDONLY);
  std::thread([&] {
    if (!leave_descriptors()) GTEST_SKIP() << "no close_range here";
    EXPECT_EQ(fcntl(kept, F_GETFD), -1);
    EXPECT_EQ(open("/dev/null", O_RDONLY), 0);
  }).join();
  EXPECT_EQ(fcntl(kept, F_GETFD), 0);
  close(kept);
}

}  // namespace
}  // namespace llamalloc
