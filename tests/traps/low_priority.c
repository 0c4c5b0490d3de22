/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that runs only when others rest, or on one processor, frees first. The thread of the
   allocator that this calls for has the priority and the processors of the process all the same:
   it holds locks that everybody waits for.
     low_priority idle|batch|nice|pinned    another thread frees later
     low_priority alone                     none does: it is there after 10 s */
#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>

#include "trap.h"

static const char* how;
static cpu_set_t whole;
static volatile int stop;

static void take_place(void) {
  const struct sched_param none = {.sched_priority = 0};
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  int done = 0;
  if (strcmp(how, "pinned") == 0)
    done = sched_setaffinity(0, sizeof(one), &one);
  else if (strcmp(how, "nice") == 0)
    done = setpriority(PRIO_PROCESS, 0, 19);
  else
    done = sched_setscheduler(0, strcmp(how, "batch") == 0 ? SCHED_BATCH : SCHED_IDLE, &none);
  if (done != 0) die("%s: %s", how, strerror(errno));
}

/* Frees until it is stopped, so that it comes first, and again and again. */
static void* work_below_others(void* began) {
  take_place();
  do {
    allocate_a_little();
    *(volatile int*)began = 1;
    usleep(1000);
  } while (!stop);
  return NULL;
}

/* The scheduler and the nice value are the 41st and 19th word of a line "1 (name) S 2 ...". */
static void check(pid_t thread) {
  char path[64], text[1024];
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
  if (read_file(path, text, sizeof(text)) <= 0) die("%s: %s", path, strerror(errno));
  const char* word = strrchr(text, ')');
  long nice_value = 0, policy = 0;
  for (int field = 3; field <= 41; ++field) {
    word = word != NULL ? strchr(word + 1, ' ') : NULL;
    if (word == NULL) die("%s: %s", path, text);
    if (field == 19) nice_value = atol(word);
    if (field == 41) policy = atol(word);
  }
  cpu_set_t its;
  if (sched_getaffinity(thread, sizeof(its), &its) != 0) die("sched_getaffinity");
  if (policy != sched_getscheduler(0)) die("its policy is %ld", policy);
  if (nice_value != getpriority(PRIO_PROCESS, 0)) die("its nice value is %ld", nice_value);
  if (!CPU_EQUAL(&its, &whole)) die("it has another set of processors");
}

/* The thread of the allocator; 0: there is none yet. */
static pid_t allocators_thread(void) {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) die("/proc/self/task: %s", strerror(errno));
  pid_t found = 0;
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    char path[300], name[32];
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
    if (read_file(path, name, sizeof(name)) > 0 && strcmp(name, "llamalloc\n") == 0)
      found = atoi(entry->d_name);
  }
  closedir(tasks);
  return found;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void wait_alone(double began) {
  while (allocators_thread() == 0) {
    if (seconds() > began + 60) die("it is not there after a minute");
    usleep(100 * 1000);
  }
  printf("it is there after %.0f s\n", seconds() - began);
  exit(seconds() - began >= 9 ? 0 : 1);
}

int main(int argc, char** argv) {
  if (argc != 2) die("usage: %s idle|batch|nice|pinned|alone", argv[0]);
  how = argv[1];
  if (sched_getaffinity(0, sizeof(whole), &whole) != 0) die("sched_getaffinity");
  const double started = seconds();
  volatile int began = 0;
  pthread_t below = start(work_below_others, (void*)&began);
  for (int i = 0; !began && i < 1000; ++i) usleep(10 * 1000);
  if (strcmp(how, "alone") == 0) wait_alone(started);
  usleep(200 * 1000);
  const pid_t at_first = allocators_thread();
  if (at_first != 0) check(at_first);
  for (int i = 0; allocators_thread() == 0 && i < 500; ++i) {
    allocate_a_little();
    usleep(10 * 1000);
  }
  stop = 1;
  pthread_join(below, NULL);
  if (allocators_thread() == 0) die("it is not there");
  check(allocators_thread());
  printf("%s\n", at_first != 0 ? "started at once" : "started by another thread");
  return 0;
}
