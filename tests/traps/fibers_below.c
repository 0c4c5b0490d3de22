/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates on stacks that end at a page which cannot be read, below the thread's own stack: where
   an allocator that takes all memory up to there for one stack reads too far. Many depths and
   sizes, so that a sampler or predictor sees contexts that are new to it. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#include "trap.h"

enum { kPage = 4096, kFiberStack = 64 * 1024, kDepths = 24, kSizes = 12 };
static const size_t kMiB = 1024 * 1024;
static __thread ucontext_t back, fiber;
static int fibers = 0;

/* Everything allocates through it: a wrapper, whose callers a predictor tells apart. */
__attribute__((noinline)) static unsigned char* wrapper(size_t size) {
  volatile char frame[256];
  frame[0] = 1;
  unsigned char* p = filled(size, 7);
  frame[1] = frame[0];
  return p;
}
__attribute__((noinline)) static void one_caller(size_t size) {
  check_and_free(wrapper(size), size, 7);
}
__attribute__((noinline)) static void another_caller(size_t size) {
  unsigned char* p = wrapper(size + 1);
  check_and_free(p, size + 1, 7);
}
__attribute__((noinline)) static void nest(int depth) {
  volatile int here = depth;
  for (int i = 0; i < kSizes && depth == 0; ++i) {
    one_caller(16u << i);
    another_caller(16u << i);
  }
  if (depth > 0) nest(depth - 1);
  here = here + 1;
}
static void allocate_at_all_depths(void) {
  for (int depth = 0; depth < kDepths; ++depth) nest(depth);
}

/* A guard page on both sides; near NULL: anywhere. */
static char* make_stack(char* near, size_t size) {
  char* all =
      mmap(near, size + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) die("mmap: %s", strerror(errno));
  if (mprotect(all + kPage, size, PROT_READ | PROT_WRITE) != 0) die("mprotect");
  return all + kPage;
}
static void drop_stack(char* stack, size_t size) {
  munmap(stack - kPage, size + 2 * kPage);
}

static void on_fiber(char* near) {
  char* stack = make_stack(near, kFiberStack);
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = stack;
  fiber.uc_stack.ss_size = kFiberStack;
  fiber.uc_link = &back;
  makecontext(&fiber, allocate_at_all_depths, 0);
  swapcontext(&back, &fiber);
  drop_stack(stack, kFiberStack);
  __atomic_fetch_add(&fibers, 1, __ATOMIC_RELAXED);
}

static void on_signal(int number) {
  (void)number;
  allocate_at_all_depths();
}
static void on_alternative_stack(char* near) {
  char* stack = make_stack(near, kFiberStack);
  stack_t alternative = {.ss_sp = stack, .ss_size = kFiberStack}, before;
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&alternative, &before) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
    die("sigaltstack");
  raise(SIGUSR1);
  sigaltstack(&before, NULL);
  drop_stack(stack, kFiberStack);
}

static int cloned(void* ignored) {
  allocate_at_all_depths();
  return ignored != NULL;
}
/* Shares this thread's variables; this thread waits. */
static void on_cloned_stack(char* near) {
  char* stack = make_stack(near, kFiberStack);
  pid_t child = clone(cloned, stack + kFiberStack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
  expect_good_end(child);
  drop_stack(stack, kFiberStack);
}

/* At several distances below this frame; the first, NULL, is where the system likes. */
static void* below_this_stack(void* ignored) {
  char* const here = (char*)((uintptr_t)__builtin_frame_address(0) & -(uintptr_t)kPage);
  char* const places[] = {NULL, here - 300 * 1024, here - 2 * kMiB, here - 7 * kMiB,
                          here - 20 * kMiB};
  allocate_at_all_depths();
  for (size_t i = 0; i < COUNT_OF(places); ++i) {
    on_fiber(places[i]);
    on_alternative_stack(places[i]);
    on_cloned_stack(places[i]);
    usleep(20000); /* what was learned of the callers counts from now on */
    on_fiber(places[i]);
  }
  return ignored;
}

static void in_thread_of(size_t stack_size) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_size);
  if (pthread_create(&thread, &attributes, below_this_stack, NULL) != 0) die("pthread_create");
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
}
static void in_thread_on_own_memory(size_t stack_size) {
  char* stack = make_stack(NULL, stack_size);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, stack_size);
  if (pthread_create(&thread, &attributes, below_this_stack, NULL) != 0) die("pthread_create");
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  drop_stack(stack, stack_size);
}

int main(void) {
  for (int round = 0; round < 2; ++round) {
    below_this_stack(NULL);
    in_thread_of(8 * kMiB);
    in_thread_of(256 * 1024);
    in_thread_of(128 * 1024);
    in_thread_on_own_memory(256 * 1024);
    in_thread_on_own_memory(4 * kMiB);
  }
  printf("%d fibers\n", fibers);
  return 0;
}
