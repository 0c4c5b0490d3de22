// SPDX-License-Identifier: Apache-2.0
#include "runtime/control.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/begins.h"
#include "base/held_lines.h"
#include "base/path_pattern.h"
#include "os/descriptor.h"
#include "os/parent_environment.h"
#include "os/path.h"
#include "os/waiter.h"
#include "runtime/background_state.h"
#include "runtime/control_commands.h"
#include "runtime/http_pages.h"
#include "runtime/listen_address.h"
#include "runtime/own_thread.h"
#include "runtime/process.h"
#include "telemetry/client_server.h"

namespace llamalloc {
namespace {

constexpr int kBacklog = 128;
constexpr int kHttpClients = 16;
constexpr size_t kControlStack = 512 * 1024;  // it names the frames of a profile

// A place of ours in the file system.
struct OwnName {
  ino_t inode = 0;  // another process may take the path over
  char path[sizeof(sockaddr_un::sun_path)] = "";

  void take(const ListenAddress& address) {
    if (!address.is_local()) return;
    struct stat status;
    memcpy(path, address.local.sun_path, sizeof(path));
    if (lstat(path, &status) == 0) inode = status.st_ino;
  }
  bool is_ours() const {
    struct stat status;
    return path[0] != 0 && lstat(path, &status) == 0 && S_ISSOCK(status.st_mode) &&
           status.st_ino == inode;
  }
};

struct ControlState {
  ClientServer* server = nullptr;
  // Whose lock a fork holds. The object stays, also if its thread cannot start during the fork.
  ClientServer* held_by_fork GUARDED_BY(background.work_lock) = nullptr;
  OwnName names[ClientServer::kServices];  // by service
  int services = 0;
  bool due = false;       // in a forked child
  bool is_child = false;  // forked from a process that had these options
};
constinit ControlState control;

// What a message calls it: "control socket" or "http", and the text of the option.
struct Called {
  const char* what;
  const char* text;
};

// Whether the parent has the library, too. A shell with the same options may not.
bool parent_has_library() {
  const char* const preload = getenv("LD_PRELOAD");
  return preload == nullptr ? parent_runs_this_program()
                            : parent_has_variable("LD_PRELOAD", preload);
}

// Another process tells the user of it: the parent, which was started with the same options. A
// forked child does not read its environment: the program may be changing it.
bool parent_tells() {
  if (control.is_child) return true;
  const char* const conf = getenv("LLAMALLOC_CONF");
  return conf != nullptr && parent_has_variable("LLAMALLOC_CONF", conf) && parent_has_library();
}

void complain(const Called& called, const char* what, int error) {
  if (parent_tells()) return;
  print_line("%s %.300s: %s: %s; continuing without it", called.what, called.text, what,
             strerrordesc_np(error));
}

// Whether a process listens there: a parent whose options we inherited, say, or a service with a
// socket of another kind.
bool somebody_answers(const ListenAddress& address) {
  // One that has just begun is refused for a moment, between bind and listen.
  constexpr int kTries = 3;
  Waiter moment;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  bool answered = false;
  for (int i = 0; i < kTries && !answered; ++i) {
    if (i != 0) moment.wait(Nanos::millis(2));
    answered = connect(fd, &address.any, address.length) == 0 || errno != ECONNREFUSED;
  }
  close(fd);
  return answered;
}

void say_taken(const Called& called) {
  if (parent_tells()) return;
  print_line("%s %.300s: another process already listens there; continuing without it", called.what,
             called.text);
}

bool path_is_free(const Called& called, const ListenAddress& address) {
  struct stat status;
  const char* path = address.local.sun_path;
  if (!address.is_local() || lstat(path, &status) != 0) return true;
  if (!S_ISSOCK(status.st_mode)) return complain(called, "cannot open it", EEXIST), false;
  if (somebody_answers(address)) return say_taken(called), false;
  unlink(path);  // a dead process left it
  return true;
}

// A server that was started again gets its address although old connections linger.
bool prepare(int fd, const ListenAddress& address) {
  const int yes = 1;
  if (address.is_local()) return fchmod(fd, 0600) == 0;  // what the name gets: no moment is open
  return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0;
}

// -1, and errno says why.
int listening_socket(const ListenAddress& address) {
  const int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const int fd = move_high(socket(address.any.sa_family, kind, 0));
  if (fd < 0 || (prepare(fd, address) && bind(fd, &address.any, address.length) == 0 &&
                 listen(fd, kBacklog) == 0))
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

void control_main() {
  prctl(PR_SET_NAME, "llamalloc-ctl");
  for (bool goes_on = true; goes_on;) {
    const HeldLines lines;
    goes_on = control.server->serve();
  }
  // To end a thread takes calls that a filter of the program may not allow.
  for (Waiter end; process_world.program_filters_calls();) end.wait(Nanos::seconds(1'000'000));
}

bool add_service(Responder* responder, int fd, const ListenAddress& address, int clients,
                 bool impatient) {
  if (control.server == nullptr)
    control.server = process.arena.make<ClientServer>(
        process.system, +[] { return !process_world.program_filters_calls(); });
  auto* places = process.arena.make_array<ClientServer::Client>(static_cast<size_t>(clients));
  return control.server != nullptr && responder != nullptr && places != nullptr &&
         control.server->listen_on(fd,
                                   {*responder, places, clients, address.is_local(), impatient});
}

// -1: a line on stderr says why.
int open_listener(const Called& called, const ListenAddress& address) {
  if (!path_is_free(called, address)) return -1;
  const int fd = listening_socket(address);
  if (fd >= 0)
    control.names[control.services].take(address);
  else if (errno == EADDRINUSE)
    say_taken(called);
  else
    complain(called, "cannot open it", errno);
  return fd;
}

bool keep_service(bool added, int fd, const Called& called) {
  if (added) return ++control.services, true;
  close(fd);
  if (control.names[control.services].is_ours()) unlink(control.names[control.services].path);
  control.names[control.services] = {};
  complain(called, "cannot serve it", ENOMEM);
  return false;
}

bool open_control(const char* pattern) {
  char path[kOptionText + 512];
  const Called called{"control socket", path};
  ListenAddress address;
  if (!path_of_option(pattern, path, sizeof(path))) snprintf(path, sizeof(path), "%s", pattern);
  anchor_path(path, sizeof(sockaddr_un::sun_path));
  if (const char* fault = local_address(path, &address)) {
    if (parent_tells()) return false;
    print_line("%s %.300s: %s; continuing without it", called.what, path, fault);
    return false;
  }
  const int fd = open_listener(called, address);
  if (fd < 0) return false;
  const bool kept = keep_service(add_service(process.arena.make<ControlCommands>(), fd, address,
                                             ClientServer::kClients, false),
                                 fd, called);
  if (kept) snprintf(control_address, sizeof(control_address), "%s", address.local.sun_path);
  return kept;
}

const char* why_not(const char* text, ListenAddress* address) {
  if (const char* fault = parse_listen_address(text, address)) return fault;
  if (!address->is_own() && !process.options.http_anywhere)
    return "other machines could reach this address; allow it with http_anywhere:on";
  return nullptr;
}

bool is_path(const char* http) {
  return begins(http, kUnixAddress);
}

bool open_http(const char* pattern) {
  char text[kOptionText + 512];
  const Called called{"http", text};
  ListenAddress address;
  if (!is_path(pattern) || !path_of_option(pattern, text, sizeof(text)))
    snprintf(text, sizeof(text), "%s", pattern);
  if (is_path(text)) anchor_path(text + sizeof(kUnixAddress) - 1, sizeof(sockaddr_un::sun_path));
  if (const char* fault = why_not(text, &address)) {
    if (parent_tells()) return false;
    print_line("http %.300s: %s; continuing without it", text, fault);
    return false;
  }
  const int fd = open_listener(called, address);
  auto* pages = fd < 0 ? nullptr : process.arena.make<HttpPages>(address.is_local());
  if (fd < 0 || !keep_service(add_service(pages, fd, address, kHttpClients, true), fd, called))
    return false;
  print_address(fd, http_address, sizeof(http_address));
  if (!address.is_local() && address.v4.sin_port == 0 && !parent_tells())
    print_line("http: listening on http://%s/", http_address);
  return true;
}

void unlink_names() {
  for (int s = 0; s < control.services; ++s)
    if (control.server->listener(s).is_ours() && control.names[s].is_ours())
      unlink(control.names[s].path);
}

}  // namespace

constinit bool samples_for_lookers = false;
constinit char control_address[128] = "";
constinit char http_address[128] = "";

void open_sockets(const char* control_path, const char* http) {
  if (control_path[0] != 0) open_control(control_path);
  if (http[0] != 0) open_http(http);
  if (control.services == 0 || start_thread(control_main, kControlStack)) return;
  unlink_names();
  control.server->close_all_in_child();
  control.server = nullptr;
  control.services = 0;
  control_address[0] = http_address[0] = 0;
  print_line("control socket, http: cannot start their thread; continuing without them");
}

namespace {

// The texts of what a forked child has for itself; "" for nothing.
struct ChildAddresses {
  const char* control = "";
  const char* http = "";

  bool any() const { return control[0] != 0 || http[0] != 0; }
};

ChildAddresses child_addresses() {
  ChildAddresses own;
  const char* const path = process.options.control.text;
  const char* const http = process.options.http.text;
  if (tells_processes_apart(path)) own.control = path;
  if (is_path(http) && tells_processes_apart(http)) own.http = http;
  return own;
}

// In a forked child.
void stop_samples_for_nobody() {
  if (samples_for_lookers && !control.due && !control_is_open()) process.profiler.stop();
}

}  // namespace

bool sockets_are_due() {
  return control.due;
}

void open_due_sockets() {
  if (!control.due) return;
  control.due = false;
  const ChildAddresses own = child_addresses();
  open_sockets(own.control, own.http);
  stop_samples_for_nobody();
}

void give_up_due_sockets() {
  if (!control.due) return;
  control.due = false;
  stop_samples_for_nobody();
}

bool control_is_open() {
  return control.services != 0;
}

// A filter of the program might end it for that. The next process replaces what stays.
void remove_control_at_exit() {
  if (control.server != nullptr && !process_world.program_filters_calls()) unlink_names();
}

// The library may be loaded late, and open its socket while another thread forks.
void control_before_fork() NO_THREAD_SAFETY_ANALYSIS {
  ClientServer* const server = control.server;
  control.held_by_fork = server != nullptr && server->lock().lock() ? server : nullptr;
}

void control_after_fork_in_parent() NO_THREAD_SAFETY_ANALYSIS {
  if (control.held_by_fork != nullptr) control.held_by_fork->lock().unlock();
}

void control_after_fork_in_child() {
  if (control.server != nullptr) control.server->close_all_in_child();
  control.server = nullptr;
  control.services = 0;
  control_address[0] = http_address[0] = 0;
  control.is_child = true;
  control.due = process.options.worker && child_addresses().any();
  stop_samples_for_nobody();
}

}  // namespace llamalloc
