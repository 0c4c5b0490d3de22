// SPDX-License-Identifier: Apache-2.0
#include "telemetry/client_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/descriptor.h"

namespace llamalloc {
namespace {

constexpr Nanos kRest = Nanos::millis(100);
constexpr int kPiecesAtOnce = 16;  // then it is the next client's turn

bool has_right(int fd) {
  ucred peer;
  socklen_t length = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == 0 || peer.uid == geteuid());
}

bool would_wait() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

bool OwnSocket::hold(int socket) {
  struct stat status;
  fd = socket;
  if (fd < 0 || fstat(fd, &status) != 0) return false;
  inode = status.st_ino;
  return true;
}

bool OwnSocket::is_ours() const {
  struct stat status;
  return fd >= 0 && fstat(fd, &status) == 0 && status.st_ino == inode && S_ISSOCK(status.st_mode);
}

void OwnSocket::shut() {
  if (is_ours()) shutdown(fd, SHUT_RDWR);
}

void OwnSocket::close() {
  if (is_ours()) ::close(fd);
  fd = -1;
}

bool ClientServer::serve(int patience_ms) {
  bool somebody_new = false;
  bool ready[kClients] = {};
  if (!wait(patience_ms, &somebody_new, &ready)) return false;
  for (int c = 0; c < kClients; ++c)
    if (ready[c]) go_on(c);
  part_with_late_ones(clock_.now());
  if (somebody_new) accept_waiting();
  return true;
}

void ClientServer::part_with_late_ones(Nanos now) {
  for (int c = 0; c < kClients; ++c) {
    Client& client = clients_[c];
    if (client.socket.fd < 0 || now < client.deadline) continue;
    const bool silent = client.waits == Client::Waits::for_line;
    if (silent) {
      client.out.add("error: no command was sent\n");
      start_sending(&client);
    }
    if (!silent || !send_reply(c)) finish(c);
  }
}

bool ClientServer::has_room() const {
  for (const Client& client : clients_)
    if (client.socket.fd < 0) return true;
  return false;
}

int ClientServer::milliseconds_to_deadline(int at_most) const {
  Nanos first = Nanos::max();
  if (rest_until_.n != 0) first = rest_until_;
  for (const Client& client : clients_)
    if (client.socket.fd >= 0 && client.deadline < first) first = client.deadline;
  if (first == Nanos::max()) return at_most;
  const Nanos left = first - clock_.now();
  const int ms = left.n <= 0 ? 0 : static_cast<int>(left.n / 1'000'000 + 1);
  return at_most >= 0 && at_most < ms ? at_most : ms;
}

bool ClientServer::wait(int patience_ms, bool* somebody_new, bool (*ready)[kClients]) {
  pollfd polled[kClients + 1];
  int whose[kClients];
  nfds_t n = 0;
  for (int c = 0; c < kClients; ++c) {
    if (clients_[c].socket.fd < 0) continue;
    const bool reads = clients_[c].waits == Client::Waits::for_line;
    whose[n] = c;
    polled[n++] = {clients_[c].socket.fd, static_cast<short>(reads ? POLLIN : POLLOUT), 0};
  }
  const nfds_t clients = n;
  if (rest_until_.n != 0 && clock_.now() >= rest_until_) rest_until_ = {};
  const bool accepts = listener_.fd >= 0 && rest_until_.n == 0 && has_room();
  if (accepts) polled[n++] = {listener_.fd, POLLIN, 0};
  if (clients == 0 && listener_.fd < 0) return false;
  if (poll(polled, n, milliseconds_to_deadline(patience_ms)) < 0)
    return errno == EINTR || poll(nullptr, 0, 100) == 0;  // a limit on descriptors below ours
  for (nfds_t i = 0; i < clients; ++i) (*ready)[whose[i]] = polled[i].revents != 0;
  *somebody_new = accepts && polled[clients].revents != 0;
  return true;
}

// ----- Clients come -----

void ClientServer::accept_waiting() {
  LockGuard guard(lock_);
  if (!listener_.is_ours()) {
    listener_.fd = -1;
    return;
  }
  while (has_room() && accept_one()) {
  }
}

// The lock is for the descriptor alone: nothing here waits.
bool ClientServer::accept_one() {
  const int fd = move_high(accept4(listener_.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd < 0) {
    if (!would_wait() && errno != ECONNABORTED) rest_until_ = clock_.now() + kRest;
    return false;
  }
  int c = 0;
  while (clients_[c].socket.fd >= 0) ++c;
  Client& client = clients_[c];
  client.used = client.sent = 0;
  client.out.clear();
  client.has_more = false;
  client.waits = Client::Waits::for_line;
  client.deadline = clock_.now() + kLineTime;
  if (!client.socket.hold(fd)) client.socket.fd = -1;
  return true;
}

// ----- One client -----

void ClientServer::go_on(int c) {
  Client& client = clients_[c];
  if (!client.socket.is_ours()) return finish(c);
  if (client.waits == Client::Waits::for_line) {
    const Line line = read_line(&client);
    if (line == Line::partial) return;
    if (line == Line::lost) return finish(c);
    answer(c);
  }
  if (!send_reply(c)) finish(c);
}

ClientServer::Line ClientServer::read_line(Client* client) {
  const size_t room = kLongestLine - client->used;
  const ssize_t n = recv(client->socket.fd, client->line + client->used, room, MSG_DONTWAIT);
  if (n < 0) return would_wait() ? Line::partial : Line::lost;
  client->used += static_cast<size_t>(n);
  client->line[client->used] = 0;
  const bool whole =
      n == 0 || client->used == kLongestLine || memchr(client->line, '\n', client->used) != nullptr;
  return whole ? Line::whole : Line::partial;
}

void ClientServer::answer(int c) {
  Client& client = clients_[c];
  if (char* end = strpbrk(client.line, "\r\n")) *end = 0;
  if (!has_right(client.socket.fd))
    client.out.add("error: the client belongs to another user\n");
  else if (client.used == 0)
    client.out.add("error: no command was sent\n");
  else
    ask_responder(c);
  start_sending(&client);
}

// What that takes is no time of the others.
void ClientServer::ask_responder(int c) {
  const Nanos before = clock_.now();
  clients_[c].has_more = responder_.begin(c, clients_[c].line, &clients_[c].out);
  const Nanos took = clock_.now() - before;
  for (Client& client : clients_) client.deadline = client.deadline + took;
}

void ClientServer::start_sending(Client* client) {
  client->waits = Client::Waits::for_reader;
  client->deadline = clock_.now() + kReplyTime;
}

// False: all was sent, or nobody reads it.
bool ClientServer::send_reply(int c) {
  Client& client = clients_[c];
  for (int piece = 0; piece < kPiecesAtOnce; ++piece) {
    if (!send_piece(&client)) return false;
    if (client.sent < client.out.size()) return true;
    if (!client.has_more) return false;
    client.sent = 0;
    client.out.clear();
    client.has_more = responder_.more(c, &client.out);
  }
  return true;
}

// False: nobody is there to read it.
bool ClientServer::send_piece(Client* client) {
  while (client->sent < client->out.size()) {
    if (!client->socket.is_ours()) return false;
    const ssize_t n = send(client->socket.fd, client->out.data() + client->sent,
                           client->out.size() - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return would_wait();
    client->sent += static_cast<size_t>(n);
  }
  return true;
}

void ClientServer::finish(int c) {
  clients_[c].socket.shut();
  {
    LockGuard guard(lock_);
    clients_[c].socket.close();
  }
  responder_.end(c);
}

void ClientServer::close_all_in_child() {
  lock_.reset();
  for (int c = 0; c < kClients; ++c) {
    if (clients_[c].socket.fd < 0) continue;
    clients_[c].socket.close();
    responder_.end(c);
  }
  listener_.close();
}

}  // namespace llamalloc
