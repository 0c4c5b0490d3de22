/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates on stacks that are not the thread's: fibers whose stacks lie in the heap, and a signal
   handler on an alternative stack with nothing above it. Samplers that walk the stack stop there.
 */
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "trap.h"

enum { kFibers = 50, kRounds = 200, kStack = 64 * 1024 };
static ucontext_t back, fibers[kFibers];
static unsigned char* held[kFibers];

static void fiber(int number) {
  for (int i = 0; i < kRounds; ++i) {
    if (held[number] != NULL) check_and_free(held[number], 5000, (unsigned char)number);
    held[number] = filled(5000, (unsigned char)number);
    swapcontext(&fibers[number], &back);
  }
  free(held[number]);
  held[number] = NULL;
}

static void on_signal(int number) {
  (void)number;
  for (int i = 0; i < 200; ++i) free(filled(3000, 1));
}

/* The topmost page before memory that cannot be read. */
static void use_alternative_stack(void) {
  const size_t size = 65536;
  char* space = mmap(NULL, size + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(space, size, PROT_READ | PROT_WRITE);
  stack_t stack = {.ss_sp = space, .ss_size = size};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) die("sigaltstack");
  for (int i = 0; i < 100; ++i) raise(SIGUSR1);
}

static void* work(void* ignored) {
  void* stacks[kFibers];
  for (int i = 0; i < kFibers; ++i) {
    getcontext(&fibers[i]);
    stacks[i] = malloc(kStack);
    fibers[i].uc_stack.ss_sp = stacks[i];
    fibers[i].uc_stack.ss_size = kStack;
    fibers[i].uc_link = &back;
    makecontext(&fibers[i], (void (*)(void))fiber, 1, i);
  }
  for (int i = 0; i <= kRounds; ++i)
    for (int f = 0; f < kFibers; ++f) swapcontext(&back, &fibers[f]);
  for (int i = 0; i < kFibers; ++i) free(stacks[i]);
  use_alternative_stack();
  return ignored;
}

int main(void) {
  work(NULL);
  pthread_join(start(work, NULL), NULL);
  printf("%d fibers, two threads\n", kFibers);
  return 0;
}
