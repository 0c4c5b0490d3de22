/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that allocate and sleep in turn, in every way that programs sleep and for random times
   around a millisecond; every other one also in a signal handler that interrupted it while it ran,
   mostly inside malloc and free, on its own stack and on another; now and then one ends,
   and the process forks. An allocator that takes what a sleeping thread has cached must not be
   mistaken once: every object is looked at before its free. sleepers SECONDS */
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>

#include "trap.h"

enum { kThreads = 6, kBallast = 12000, kObjects = 400, kAltStack = 64 << 10 };
static volatile int stop;
static int pipes[kThreads][2];
static long slept[8], handled, ended;

static struct timespec random_time(uint64_t* state) {
  return (struct timespec){0, (long)(next_random(state) % 1500) * 1000};
}

/* Wakes when it is written to or in a while; no call into the allocator. */
static void sleep_somehow(int way, int self, uint64_t* state) {
  struct timespec time = random_time(state);
  struct pollfd end = {pipes[self][0], POLLIN, 0};
  int word = 0;
  char byte;
  sigset_t none;
  sigemptyset(&none);
  __atomic_add_fetch(&slept[way], 1, __ATOMIC_RELAXED);
  switch (way) {
    case 0:
      nanosleep(&time, NULL);
      break;
    case 1:
      poll(&end, 1, (int)(time.tv_nsec / 1000000));
      break;
    case 2:
      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
      break;
    case 3:
      if (read(pipes[self][0], &byte, 1) < 0 && errno != EINTR) die("read");
      break;
    case 4:
      sigtimedwait(&none, NULL, &time);
      break;
    case 5:
      ppoll(&end, 1, &time, &none);
      break;
    case 6: {
      static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
      static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
      struct timespec until;
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_nsec += time.tv_nsec;
      until.tv_sec += until.tv_nsec / 1000000000;
      until.tv_nsec %= 1000000000;
      pthread_mutex_lock(&lock);
      pthread_cond_timedwait(&never, &lock, &until);
      pthread_mutex_unlock(&lock);
      break;
    }
    default:
      pselect(0, NULL, NULL, NULL, &time, NULL);
  }
}

static void handler(int number) {
  const int saved = errno;
  uint64_t state = (uint64_t)(uintptr_t)&state ^ (uint64_t)handled * 77 ^ 1;
  struct timespec time = {0, 3000000 + (long)(next_random(&state) % 20000) * 1000};
  (void)number;
  __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
  if (next_random(&state) % 2)
    nanosleep(&time, NULL);
  else
    poll(NULL, 0, 20);
  errno = saved;
}

static void act(unsigned char** p, size_t* size, uint64_t* state) {
  const size_t at = next_random(state) % kObjects;
  if (p[at] != NULL) {
    check_and_free(p[at], size[at], (unsigned char)(size[at] ^ at));
    p[at] = NULL;
  } else {
    const uint64_t r = next_random(state);
    size[at] = 1 + (r >> 8) % (r % 20 == 0 ? 9000 : 300);
    p[at] = filled(size[at], (unsigned char)(size[at] ^ at));
  }
}

/* A signal after so much of the thread's processor time, again and again. */
static timer_t interrupt_self(uint64_t* state) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
  event._sigev_un._tid = gettid();
  timer_t timer;
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0)
    die("timer_create: %s", strerror(errno));
  struct timespec often = {0, 500000 + (long)(next_random(state) % 2000) * 1000};
  struct itimerspec times = {often, often};
  timer_settime(timer, 0, &times, NULL);
  return timer;
}

/* Ends by itself now and then, so that threads come and go. */
static void* work(void* number) {
  const int self = (int)(uintptr_t)number;
  static uint64_t seed;
  uint64_t state = __atomic_add_fetch(&seed, 1, __ATOMIC_RELAXED) * 0x9E3779B97F4A7C15u;
  unsigned char* p[kObjects] = {0};
  size_t size[kObjects];
  stack_t other = {.ss_sp = malloc(kAltStack), .ss_size = kAltStack};
  if (next_random(&state) % 2) sigaltstack(&other, NULL);
  timer_t timer = NULL;
  if (self % 2) timer = interrupt_self(&state);
  for (long round = 0; !stop && next_random(&state) % 200 != 0; ++round) {
    for (int i = (int)(next_random(&state) % 300); i > 0; --i) act(p, size, &state);
    for (int i = (int)(next_random(&state) % 20000); i > 0; --i) free(malloc(40));
    sleep_somehow((int)(next_random(&state) % COUNT_OF(slept)), self, &state);
  }
  if (self % 2) timer_delete(timer);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &interrupt, NULL);
  stack_t none = {.ss_flags = SS_DISABLE};
  sigaltstack(&none, NULL);
  free(other.ss_sp);
  for (size_t i = 0; i < kObjects; ++i)
    if (p[i] != NULL) check_and_free(p[i], size[i], (unsigned char)(size[i] ^ i));
  __atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void* keep_one(void* number) {
  while (!stop) pthread_join(start(work, number), NULL);
  return NULL;
}

static void wake_a_reader(uint64_t* state) {
  if (write(pipes[next_random(state) % kThreads][1], "x", 1) != 1)
    die("write: %s", strerror(errno));
  usleep((useconds_t)(next_random(state) % 700));
}

/* The child has what its parent's threads and caches were in the middle of. */
static void fork_a_child(void) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    churn(1, 2000, NULL);
    _exit(0);
  }
  expect_good_end(child);
}

int main(int argc, char** argv) {
  if (argc != 2) die("usage: %s SECONDS", argv[0]);
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  unsigned char* ballast[kBallast];
  for (size_t i = 0; i < kBallast; ++i) ballast[i] = filled(1000, (unsigned char)i);
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    if (pipe(pipes[i]) != 0) die("pipe: %s", strerror(errno));
    threads[i] = start(keep_one, (void*)i);
  }
  const time_t end = time(NULL) + atol(argv[1]);
  uint64_t state = 12345;
  for (long i = 0; time(NULL) < end; ++i) {
    free(malloc(40));
    wake_a_reader(&state);
    if (i % 200 == 0) fork_a_child();
  }
  stop = 1;
  for (int i = 0; i < kThreads; ++i) close(pipes[i][1]);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < kBallast; ++i) check_and_free(ballast[i], 1000, (unsigned char)i);
  long all = 0;
  for (size_t i = 0; i < COUNT_OF(slept); ++i) all += slept[i];
  printf("%ld sleeps, %ld in handlers, %ld threads\n", all, handled, ended);
  return 0;
}
