// SPDX-License-Identifier: Apache-2.0
#include "runtime/control.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/descriptor.h"
#include "runtime/background.h"
#include "runtime/background_state.h"
#include "runtime/control_commands.h"
#include "runtime/process.h"
#include "telemetry/client_server.h"

namespace llamalloc {
namespace {

constexpr int kBacklog = 128;
constexpr size_t kControlStack = 512 * 1024;  // it names the frames of a profile

struct ControlState {
  ClientServer* server = nullptr;
  ControlCommands* commands = nullptr;
  bool locked_for_fork GUARDED_BY(background.work_lock) = false;  // a fork holds it
  ino_t name = 0;  // of its place in the file system: another process may take the path over
  char path[sizeof(sockaddr_un::sun_path)] = "";
};
constinit ControlState control;

void complain(const char* what, int error) {
  print_line("control socket %s: %s: %s; continuing without it", control.path, what,
             strerrordesc_np(error));
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

bool path_is_free(const sockaddr_un& address) {
  struct stat status;
  if (lstat(control.path, &status) != 0 || !S_ISSOCK(status.st_mode)) return true;
  if (somebody_answers(address)) {
    print_line("control socket %s: another process already listens there; continuing without it",
               control.path);
    return false;
  }
  unlink(control.path);  // a dead process left it
  return true;
}

// -1, and errno says why.
int listening_socket(const sockaddr_un& address) {
  const int fd = move_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The mode of the descriptor is what the name gets: there is no moment at which others may in.
  if (fd < 0 || (fchmod(fd, 0600) == 0 &&
                 bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                 listen(fd, kBacklog) == 0))
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

void* control_main(void*) {
  prctl(PR_SET_NAME, "llamalloc-ctl");
  while (control.server->serve()) {
  }
  return nullptr;
}

bool make_server(int fd) {
  control.commands = process.arena.make<ControlCommands>();
  if (control.commands == nullptr) return false;
  control.server = process.arena.make<ClientServer>(process.system, *control.commands);
  return control.server != nullptr && control.server->listen_on(fd);
}

bool still_named() {
  struct stat status;
  return lstat(control.path, &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_ino == control.name;
}

}  // namespace

void open_control(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof(address.sun_path)) {
    print_line("control socket %s: path longer than %zu bytes; continuing without it", path,
               sizeof(address.sun_path) - 1);
    return;
  }
  strcpy(address.sun_path, path);
  strcpy(control.path, path);
  if (!path_is_free(address)) return;
  const int fd = listening_socket(address);
  if (fd < 0) return complain("cannot open it", errno);
  struct stat status;
  if (lstat(path, &status) == 0) control.name = status.st_ino;
  if (make_server(fd) && start_thread(control_main, kControlStack)) return;
  close(fd);
  control.server = nullptr;
  if (still_named()) unlink(path);
  complain("cannot start its thread", EAGAIN);
}

bool control_is_open() {
  return control.server != nullptr;
}

void remove_control_at_exit() {
  if (control.server != nullptr && control.server->listener().is_ours() && still_named())
    unlink(control.path);
}

// The library may be loaded late, and open its socket while another thread forks.
void control_before_fork() NO_THREAD_SAFETY_ANALYSIS {
  control.locked_for_fork = control.server != nullptr && control.server->lock().lock();
}

void control_after_fork_in_parent() NO_THREAD_SAFETY_ANALYSIS {
  if (control.locked_for_fork) control.server->lock().unlock();
}

void control_after_fork_in_child() {
  if (control.server != nullptr) control.server->close_all_in_child();
  control.server = nullptr;
}

}  // namespace llamalloc
