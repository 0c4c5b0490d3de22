/* SPDX-License-Identifier: Apache-2.0 */
/* Children that share our memory and our thread-local storage, and allocate while we wait for them:
   to an allocator the waiting thread and the child are one thread, and to the kernel it sleeps.
     shared_memory clone|vfork_clone|vfork|spawn SECONDS
   clone: CLONE_VM; vfork_clone: CLONE_VM and CLONE_VFORK; vfork: which then runs a program; spawn:
   posix_spawn of one, with file actions. Every object is looked at before its free. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <time.h>

#include "trap.h"

extern char** environ;
enum { kBallast = 12000, kSlots = 3000, kStack = 256 << 10, kParents = 2 };

typedef struct {
  unsigned char* p[kSlots];
  size_t size[kSlots];
  uint64_t state;
  unsigned seconds;
} Objects;

static unsigned char mark_of(size_t at) {
  return (unsigned char)(at * 7 + 1);
}

static void release(Objects* all, size_t at) {
  for (size_t i = 0; i < all->size[at]; ++i)
    if (all->p[at][i] != mark_of(at)) die("an object was overwritten");
  free(all->p[at]);
  all->p[at] = NULL;
}

static void act(Objects* all, long rounds) {
  for (long i = 0; i < rounds; ++i) {
    const uint64_t r = next_random(&all->state);
    const size_t at = r % kSlots;
    if (all->p[at] != NULL) {
      release(all, at);
    } else {
      all->size[at] = 16 + (r >> 16) % ((r >> 50) % 50 == 0 ? 20000 : 300);
      all->p[at] = filled(all->size[at], mark_of(at));
    }
  }
}

/* As long as its parent waits: a second at a time. */
static int be_child(void* objects) {
  const time_t end = time(NULL) + 1;
  while (time(NULL) <= end) act(objects, 5000);
  return 0;
}

static void run_clone(Objects* all, int flags) {
  char* stack = malloc(kStack);
  pid_t child = clone(be_child, stack + kStack, CLONE_VM | SIGCHLD | flags, all);
  expect_good_end(child);
  free(stack);
}

static void run_vfork(Objects* all) {
  pid_t child = vfork();
  if (child == 0) {
    act(all, 20000);
    execl("/bin/true", "true", NULL);
    _exit(9);
  }
  expect_good_end(child);
}

static void run_spawn(void) {
  char* arguments[] = {"true", NULL};
  posix_spawn_file_actions_t actions;
  pid_t child;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 5, "/dev/null", O_RDONLY, 0);
  int error = posix_spawnp(&child, "true", &actions, NULL, arguments, environ);
  if (error != 0) die("posix_spawn: %s", strerror(error));
  posix_spawn_file_actions_destroy(&actions);
  expect_good_end(child);
}

static const char* way;
static long children;

static void* be_parent(void* objects) {
  Objects* all = objects;
  for (time_t end = time(NULL) + all->seconds; time(NULL) < end;) {
    act(all, 2000);
    if (strcmp(way, "clone") == 0)
      run_clone(all, 0);
    else if (strcmp(way, "vfork_clone") == 0)
      run_clone(all, CLONE_VFORK);
    else if (strcmp(way, "vfork") == 0)
      run_vfork(all);
    else
      run_spawn();
    __atomic_add_fetch(&children, 1, __ATOMIC_RELAXED);
  }
  for (size_t at = 0; at < kSlots; ++at)
    if (all->p[at] != NULL) release(all, at);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 3) die("usage: %s clone|vfork_clone|vfork|spawn SECONDS", argv[0]);
  way = argv[1];
  unsigned char* ballast[kBallast];
  for (size_t i = 0; i < kBallast; ++i) ballast[i] = filled(4000, (unsigned char)i);
  for (size_t i = 0; i < kBallast; i += 2) check_and_free(ballast[i], 4000, (unsigned char)i);
  static Objects objects[kParents];
  pthread_t threads[kParents];
  for (int i = 0; i < kParents; ++i) {
    objects[i].state = (uint64_t)i + 77;
    objects[i].seconds = (unsigned)atoi(argv[2]);
    threads[i] = start(be_parent, &objects[i]);
  }
  for (int i = 0; i < kParents; ++i) pthread_join(threads[i], NULL);
  for (size_t i = 1; i < kBallast; i += 2) check_and_free(ballast[i], 4000, (unsigned char)i);
  printf("%ld children\n", children);
  return children > 0 ? 0 : 1;
}
