/* SPDX-License-Identifier: Apache-2.0 */
/* No file of /proc and /sys can be opened from the start of the process on, as in a sandbox.
     seccomp_files EPERM|EACCES
   A filter asks the parent about every openat; the loader finds its libraries. 64 MiB are freed but
   for one object in a thousand, the process is at rest, and those are still there. */
#include "seccomp.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { kObjects = 64 << 10, kSize = 1000, kStays = 1000 };
static unsigned char* objects[kObjects];

static int work(void) {
  for (int i = 0; i < kObjects; ++i) objects[i] = filled(kSize, (unsigned char)i);
  for (int i = 0; i < kObjects; ++i)
    if (i % kStays != 0) check_and_free(objects[i], kSize, (unsigned char)i);
  sleep(5);
  for (int i = 0; i < kObjects; i += kStays) {
    for (size_t j = 0; j < kSize; ++j)
      if (objects[i][j] != (unsigned char)i) die("an object was overwritten");
    free(objects[i]);
  }
  churn(1, 20000, NULL);
  return 0;
}

/* Of the calling thread; the descriptor through which its calls are answered. */
static int ask_about_openat(void) {
  struct sock_filter code[] = {
      LOAD(nr),
      IS(SYS_openat, 1),
      GIVE(SECCOMP_RET_USER_NOTIF),
      GIVE(SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {COUNT_OF(code), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("prctl: %s", strerror(errno));
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                      &program);
}

static int begins_with(const char* path, const char* start) {
  return strncmp(path, start, strlen(start)) == 0;
}

/* Answers one call; whether it was refused. */
static int answer(int listener, int error) {
  struct seccomp_notif call;
  memset(&call, 0, sizeof(call));
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return 0;
  char path[16] = "";
  struct iovec here = {path, sizeof(path) - 1};
  struct iovec there = {(void*)(uintptr_t)call.data.args[1], sizeof(path) - 1};
  ssize_t n = process_vm_readv((pid_t)call.pid, &here, 1, &there, 1, 0);
  int refused = n > 0 && (begins_with(path, "/proc/") || begins_with(path, "/sys/"));
  struct seccomp_notif_resp response = {.id = call.id};
  if (refused)
    response.error = -error;
  else
    response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
  return refused;
}

/* A socket carries the descriptor from the child to the parent; without one the other end closes.
 */
union control {
  struct cmsghdr header;
  char room[CMSG_SPACE(sizeof(int))];
};

static void send_listener(int socket, int listener) {
  char word = 'l';
  struct iovec data = {&word, 1};
  union control control;
  memset(&control, 0, sizeof(control));
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(&control.header), &listener, sizeof(int));
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};
  if (sendmsg(socket, &message, 0) != 1) _exit(3);
}

static int received_listener(int socket) {
  char word;
  struct iovec data = {&word, 1};
  union control control;
  struct msghdr message = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};
  int listener;
  if (recvmsg(socket, &message, 0) != 1) die("no listener: Linux before 5.5, or another sandbox");
  memcpy(&listener, CMSG_DATA(&control.header), sizeof(int));
  return listener;
}

int main(int argc, char** argv) {
  if (argc == 3) return work();
  int error = argc == 2 && strcmp(argv[1], "EPERM") == 0 ? EPERM : EACCES;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) die("%s", strerror(errno));
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    int own = ask_about_openat();
    if (own < 0) _exit(3);
    send_listener(ends[1], own);
    char* again[] = {argv[0], argv[1], "work", NULL};
    execv(argv[0], again);
    _exit(3);
  }
  close(ends[1]);
  int listener = received_listener(ends[0]), refused = 0, status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    struct pollfd events = {listener, POLLIN, 0};
    if (poll(&events, 1, 100) == 1 && (events.revents & POLLIN)) refused += answer(listener, error);
  }
  printf("%d files refused\n", refused);
  return status == 0 ? 0 : 1;
}
