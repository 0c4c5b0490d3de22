// SPDX-License-Identifier: Apache-2.0
#include "runtime/control.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "os/descriptor.h"
#include "runtime/allocator.h"
#include "runtime/background_state.h"
#include "runtime/output.h"
#include "runtime/values.h"

namespace llamalloc {
namespace {

constexpr Nanos kPatience = Nanos::seconds(1);  // with a client, each for its line and its reply
constexpr int kClientsARound = 8;               // the worker has other things to do

struct ControlState {
  int fd = -1;
  ino_t inode = 0;  // of the socket: a program may close our descriptor and reuse the number
  ino_t name = 0;   // of its place in the file system: another process may take the path over
  char path[sizeof(sockaddr_un::sun_path)] = "";
};
constinit ControlState control;

bool still_ours() {
  struct stat status;
  return control.fd >= 0 && fstat(control.fd, &status) == 0 && status.st_ino == control.inode &&
         S_ISSOCK(status.st_mode);
}

class SocketSink final : public ByteSink {
 public:
  explicit SocketSink(int fd) : fd_(fd) {}
  bool write(const void* data, size_t bytes) override {
    good_ = good_ && buffer_.append(data, bytes, [this](const char* part, size_t length) {
      return deliver(part, length);
    });
    return good_;
  }
  void flush() {
    good_ = good_ &&
            buffer_.flush([this](const char* data, size_t bytes) { return deliver(data, bytes); });
  }

 private:
  bool deliver(const char* data, size_t bytes) {
    while (bytes > 0) {
      const Nanos before = process.system.now();
      const ssize_t n = send(fd_, data, bytes, MSG_NOSIGNAL);
      waited_ = waited_ + (process.system.now() - before);
      if (n <= 0 || waited_ > kPatience) return false;
      data += n;
      bytes -= static_cast<size_t>(n);
    }
    return true;
  }

  int fd_;
  bool good_ = true;
  Nanos waited_{};  // for a client that reads slowly
  ByteBuffer<4096> buffer_;
};

bool is_trusted(int fd) {
  ucred peer;
  socklen_t length = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == 0 || peer.uid == geteuid());
}

// One line without its end; false: none came in time, whether nothing came or a byte now and then.
bool read_line(int fd, char* line, size_t room) {
  const Nanos latest = process.system.now() + kPatience;
  size_t used = 0;
  while (used + 1 < room) {
    const ssize_t n = recv(fd, line + used, room - 1 - used, 0);
    if (n < 0 || process.system.now() > latest) return false;
    if (n == 0) break;
    used += static_cast<size_t>(n);
    if (memchr(line, '\n', used)) break;
  }
  line[used] = 0;
  if (char* end = strpbrk(line, "\r\n")) *end = 0;
  return used > 0;
}

void reply(SocketSink& sink, const char* text) {
  sink.write(text, strlen(text));
}

void reply_result(SocketSink& sink, bool good, const char* fault) {
  reply(sink, good ? "ok\n" : "error: ");
  if (!good) reply(sink, fault);
  if (!good) reply(sink, "\n");
}

void act_release(SocketSink& sink) {
  char text[64];
  snprintf(text, sizeof(text), "ok\n%zu\n", release_memory(0).pages * kHugePageSize);
  reply(sink, text);
}

void act_set(SocketSink& sink, char* arguments) {
  char* value = strchr(arguments, ' ');
  if (value != nullptr) *value++ = 0;
  reply_result(
      sink, value != nullptr && change_option(arguments, value) == 0,
      "set NAME VALUE: sample_interval, release_delay, retain or on_misuse, with its unit");
}

void act_get(SocketSink& sink, const char* name) {
  Options::Value value;
  if (!read_value(name, &value)) return reply(sink, "error: neither statistic nor option\n");
  char text[kOptionText + 8];
  if (value.text != nullptr)
    snprintf(text, sizeof(text), "ok\n%s\n", value.text);
  else
    snprintf(text, sizeof(text), "ok\n%llu\n", static_cast<unsigned long long>(value.number));
  reply(sink, text);
}

void answer(int fd, SocketSink& sink) {
  char line[4200];
  if (!is_trusted(fd)) return reply(sink, "error: another user's process\n");
  if (!read_line(fd, line, sizeof(line))) return reply(sink, "error: no command came\n");
  char text[64];
  if (strcmp(line, "ping") == 0) {
    snprintf(text, sizeof(text), "ok\npid %d\n", getpid());
    reply(sink, text);
  } else if (strcmp(line, "stats") == 0) {
    reply(sink, "ok\n");
    write_stats_json(sink);
  } else if (strncmp(line, "sampling ", 9) == 0) {
    reply_result(sink, act("sampling", line + 9) == 0, "sampling on, or sampling off");
  } else if (strncmp(line, "get ", 4) == 0) {
    act_get(sink, line + 4);
  } else if (strncmp(line, "set ", 4) == 0) {
    act_set(sink, line + 4);
  } else if (strncmp(line, "profile ", 8) == 0) {
    reply_result(sink, llamalloc::write_profile(line + 8, false),
                 "could not write it; stderr says why");
  } else if (strcmp(line, "release") == 0) {
    act_release(sink);
  } else {
    reply(sink, "error: unknown command; known: ping stats sampling get set profile release\n");
  }
}

void complain(const char* what) {
  print_line("control socket %s: %s: %s; going on without it", control.path, what,
             strerrordesc_np(errno));
}

// Whether a process listens there: a parent whose options we inherited, say.
bool somebody_answers(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const bool answered = connect(fd, name, sizeof(address)) == 0 || errno == EAGAIN;
  close(fd);
  return answered;
}

}  // namespace

void open_control(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof(address.sun_path)) {
    print_line("control socket %s: longer than %zu bytes; going on without it", path,
               sizeof(address.sun_path) - 1);
    return;
  }
  strcpy(address.sun_path, path);
  strcpy(control.path, path);
  struct stat status;
  if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode)) {
    if (somebody_answers(address)) {
      print_line("control socket %s: another process listens there; going on without it", path);
      return;
    }
    unlink(path);  // a dead process left it
  }
  control.fd = move_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The mode of the descriptor is what the name gets: there is no moment at which others may in.
  if (control.fd < 0 || fchmod(control.fd, 0600) != 0 ||
      bind(control.fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(control.fd, kClientsARound) != 0 || fstat(control.fd, &status) != 0) {
    complain("cannot be opened");
    if (control.fd >= 0) close(control.fd);
    control.fd = -1;
    return;
  }
  control.inode = status.st_ino;
  if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode)) control.name = status.st_ino;
}

bool control_is_open() {
  return control.fd >= 0;
}

void answer_control() {
  if (control.fd < 0) return;
  if (!still_ours()) {
    control.fd = -1;
    return;
  }
  for (int client = 0; client < kClientsARound; ++client) {
    const int fd = off_standard(accept4(control.fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (fd < 0) return;
    const timeval second{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));
    SocketSink sink(fd);
    answer(fd, sink);
    sink.flush();
    close(fd);
  }
}

void remove_control_at_exit() {
  struct stat status;
  if (still_ours() && lstat(control.path, &status) == 0 && status.st_ino == control.name)
    unlink(control.path);
}

void control_after_fork_in_child() {
  if (still_ours()) close(control.fd);
  control.fd = -1;
}

}  // namespace llamalloc
