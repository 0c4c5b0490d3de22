/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose threads sleep, after a burst, while an allocator looks for memory to give back.
   Nobody else closes a descriptor of its files: that would end a registration by mq_notify and
   POSIX locks, and have a network's file system write back. Nobody else holds one, either: what is
   closed here is closed, so the other end of a pipe sees its end, a lock of flock and a socket's
   name are free.   descriptors idle|close SECONDS */
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "trap.h"

enum { kObjects = 16000, kSize = 4096, kThreads = 4, kDescriptors = 50 };
static volatile int stop;
static volatile sig_atomic_t notified;

static void note(int number) {
  (void)number;
  notified = 1;
}

/* There is something to take from each, again and again. */
static void* allocate_and_sleep(void* seed) {
  for (uint64_t i = (uintptr_t)seed; !stop; ++i) {
    churn(i, 400, NULL);
    usleep(1000 + 1000 * (i % 30));
  }
  return NULL;
}

static void burst(void) {
  unsigned char** objects = malloc(kObjects * sizeof(*objects));
  for (int i = 0; i < kObjects; ++i) objects[i] = filled(kSize, (unsigned char)i);
  for (int i = 0; i < kObjects; i += 2) check_and_free(objects[i], kSize, (unsigned char)i);
}

static int temporary_file(char* path) {
  int fd = mkstemp(path);
  if (fd < 0) die("%s: %s", path, strerror(errno));
  return fd;
}

/* Looks from another process, whose own locks would not be in the way. */
static void expect_locked_by(pid_t owner, const char* path) {
  pid_t child = fork();
  if (child == 0) {
    int fd = open(path, O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fd < 0 || fcntl(fd, F_GETLK, &lock) != 0) _exit(2);
    _exit(lock.l_type == F_WRLCK && lock.l_pid == owner ? 0 : 3);
  }
  expect_good_end(child);
}

/* A registration, a POSIX lock and an event's count last while nothing is done. */
static const char* idle(unsigned seconds) {
  struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 16};
  char name[60], path[] = "/tmp/llamalloc_lock_XXXXXX";
  snprintf(name, sizeof(name), "/llamalloc_trap_%d", getpid());
  const mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
  const int no_queues = queue < 0;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  signal(SIGUSR1, note);
  if (!no_queues && mq_notify(queue, &event) != 0) die("mq_notify: %s", strerror(errno));
  if (!no_queues) mq_unlink(name);
  const int locked = temporary_file(path), counter = eventfd(7, EFD_NONBLOCK);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(locked, F_SETLK, &lock) != 0) die("F_SETLK: %s", strerror(errno));
  for (unsigned left = seconds; left > 0;) left = sleep(left);
  expect_locked_by(getpid(), path);
  unlink(path);
  uint64_t count = 0;
  if (read(counter, &count, sizeof(count)) != sizeof(count) || count != 7) die("the event is lost");
  if (no_queues) return "no message queues here; a lock and an event are kept";
  if (mq_send(queue, "x", 1, 0) != 0) die("mq_send: %s", strerror(errno));
  for (int i = 0; i < 200 && !notified; ++i) usleep(10000);
  if (!notified) die("the registration by mq_notify is lost");
  return "a registration, a lock and an event are kept";
}

static void expect_end_of_pipe(void) {
  int ends[2];
  char byte;
  if (pipe2(ends, O_NONBLOCK) != 0) die("pipe: %s", strerror(errno));
  close(ends[1]);
  if (read(ends[0], &byte, 1) != 0) die("a pipe's closed end is held: %s", strerror(errno));
  close(ends[0]);
}

static void expect_free_lock(const char* path) {
  int fd = open(path, O_RDWR);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) die("a closed file's lock is held");
  close(fd);
}

static void expect_free_name(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int n = snprintf(address.sun_path + 1, 60, "llamalloc trap %d", getpid());
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  if (bind(fd, (struct sockaddr*)&address, length) != 0) die("a closed socket's name is taken");
  listen(fd, 1);
  close(fd);
}

/* Some more descriptors, so that a copy of them all takes longer. */
static long open_and_close(unsigned seconds) {
  for (int i = 0; i < kDescriptors; ++i)
    if (eventfd(0, 0) < 0) die("eventfd: %s", strerror(errno));
  char path[] = "/tmp/llamalloc_lock_XXXXXX";
  close(temporary_file(path));
  long rounds = 0;
  for (time_t end = time(NULL) + seconds; time(NULL) < end; ++rounds) {
    expect_end_of_pipe();
    expect_free_lock(path);
    expect_free_name();
  }
  unlink(path);
  return rounds;
}

int main(int argc, char** argv) {
  if (argc != 3) die("usage: %s idle|close SECONDS", argv[0]);
  const int idles = strcmp(argv[1], "idle") == 0;
  burst();
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i)
    threads[i] = start(allocate_and_sleep, (void*)(1000 * i + 1));
  if (idles)
    printf("%s\n", idle((unsigned)atoi(argv[2])));
  else
    printf("%ld rounds\n", open_and_close((unsigned)atoi(argv[2])));
  stop = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  return 0;
}
