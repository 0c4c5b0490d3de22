/* SPDX-License-Identifier: Apache-2.0 */
/* A real-time thread with a processor of its own makes the process start a thread of the
   allocator's. That one must neither be real-time nor stay on that processor: it would never run
   there while the other one waits for what it holds. */
#include <dirent.h>
#include <sched.h>

#include "trap.h"

static cpu_set_t whole;

static void check(pid_t thread) {
  cpu_set_t mine;
  const int policy = sched_getscheduler(thread);
  if (policy == SCHED_FIFO) die("thread %d is real-time", thread);
  if (sched_getaffinity(thread, sizeof(mine), &mine) == 0 && !CPU_EQUAL(&mine, &whole))
    die("thread %d has another set of processors", thread);
}

static int check_others(void) {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) die("/proc/self/task: %s", strerror(errno));
  int others = 0;
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    const pid_t thread = atoi(entry->d_name);
    if (thread <= 0 || thread == getpid()) continue;
    check(thread);
    ++others;
  }
  closedir(tasks);
  return others;
}

int main(void) {
  if (sched_getaffinity(0, sizeof(whole), &whole) != 0) die("sched_getaffinity");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  const struct sched_param least = {.sched_priority = 1};
  if (sched_setaffinity(0, sizeof(one), &one) != 0 ||
      sched_setscheduler(0, SCHED_FIFO, &least) != 0) {
    printf("no right to be real-time\n");
    return 0;
  }
  for (int i = 0; i < 3; ++i) allocate_a_little();
  usleep(200 * 1000);
  printf("%d other threads\n", check_others());
  return 0;
}
