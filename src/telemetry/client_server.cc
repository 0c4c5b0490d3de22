// SPDX-License-Identifier: Apache-2.0
#include "telemetry/client_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

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

// Ends the connection, also where a forked child has a copy.
void shut(const OpenFile& socket) {
  if (socket.is_ours()) shutdown(socket.fd(), SHUT_RDWR);
}

}  // namespace

// ----- Services -----

struct ClientServer::Poll {
  struct Entry {
    Service* service;
    Client* client;  // null: the listener
  };
  pollfd polled[kMostClients + kServices];
  Entry entries[kMostClients + kServices];
  nfds_t count = 0;
  nfds_t listeners = 0;

  void add(int fd, short events, Service* service, Client* client) {
    polled[count] = {fd, events, 0};
    entries[count++] = {service, client};
    listeners += client == nullptr;
  }
};

bool ClientServer::listen_on(int fd, const Offer& offer) {
  int places = offer.count;
  for (int s = 0; s < service_count_; ++s) places += services_[s].count;
  if (service_count_ == kServices || places > kMostClients) return false;
  Service& service = services_[service_count_];
  if (!service.listener.hold(fd)) return false;
  for (int c = 0; c < offer.count; ++c) new (&offer.places[c]) Client;
  service.responder = &offer.responder;
  service.clients = offer.places;
  service.count = offer.count;
  service.local = offer.local;
  service.impatient = offer.impatient;
  ++service_count_;
  return true;
}

template <typename F>
void ClientServer::for_each_client(F&& f) {
  for (int s = 0; s < service_count_; ++s)
    for (int c = 0; c < services_[s].count; ++c)
      if (services_[s].clients[c].socket.fd() >= 0) f(&services_[s], &services_[s].clients[c]);
}

ClientServer::Client* ClientServer::free_place(const Service& service) {
  for (int c = 0; c < service.count; ++c)
    if (service.clients[c].socket.fd() < 0) return &service.clients[c];
  return nullptr;
}

// Null: none has been silent for kGrace, or it is no such service.
ClientServer::Client* ClientServer::silent_longest(const Service& service, Nanos now) const {
  Client* found = nullptr;
  for (int c = 0; service.impatient && c < service.count; ++c) {
    Client& client = service.clients[c];
    const bool silent = client.waits != Client::Waits::for_time && now - client.since >= kGrace;
    if (silent && (found == nullptr || client.since < found->since)) found = &client;
  }
  return found;
}

bool ClientServer::accepts(const Service& service, Nanos now) const {
  return service.listener.fd() >= 0 && now >= service.rest_until &&
         (free_place(service) != nullptr || silent_longest(service, now) != nullptr);
}

bool ClientServer::serve(int patience_ms) {
  Poll poll;
  if (!wait(patience_ms, &poll)) return false;
  if (may_serve_ != nullptr && !may_serve_()) return false;
  for (nfds_t i = 0; i < poll.count; ++i)
    if (poll.entries[i].client != nullptr && poll.polled[i].revents != 0)
      go_on(poll.entries[i].service, poll.entries[i].client);
  part_with_late_ones(clock_.now());
  for (nfds_t i = 0; i < poll.count; ++i)
    if (poll.entries[i].client == nullptr && poll.polled[i].revents != 0)
      accept_waiting(poll.entries[i].service);
  return true;
}

// Those whose time has come without them; for some it is what they waited for.
void ClientServer::part_with_late_ones(Nanos now) {
  for_each_client([&](Service* service, Client* client) {
    if (now < client->deadline) return;
    if (client->waits == Client::Waits::for_time) {
      start_sending(client);
      if (!send_reply(service, client)) finish(service, client);
      return;
    }
    const bool silent = client->waits == Client::Waits::for_line;
    if (silent) {
      service->responder->refuse(Refusal::silent, &client->out);
      start_sending(client);
    }
    if (!silent || !send_reply(service, client)) finish(service, client);
  });
}

int ClientServer::milliseconds_to_deadline(int at_most) {
  Nanos first = Nanos::max();
  const Nanos now = clock_.now();
  const auto look_at = [&](Nanos time) { first = time < first ? time : first; };
  for_each_client([&](Service*, Client* client) { look_at(client->deadline); });
  for (int s = 0; s < service_count_; ++s) {
    const Service& service = services_[s];
    if (now < service.rest_until) look_at(service.rest_until);
    if (service.impatient && service.listener.fd() >= 0 && !accepts(service, now))
      look_at(now + kGrace);
  }
  if (first == Nanos::max()) return at_most;
  const Nanos left = first - now;
  const int ms = left.n <= 0 ? 0 : static_cast<int>(left.n / 1'000'000 + 1);
  return at_most >= 0 && at_most < ms ? at_most : ms;
}

bool ClientServer::wait(int patience_ms, Poll* polled) {
  bool any = false;
  for_each_client([&](Service* service, Client* client) {
    any = true;
    const bool reads = client->waits == Client::Waits::for_line;
    const bool idle = client->waits == Client::Waits::for_time;
    polled->add(client->socket.fd(),
                static_cast<short>(idle    ? POLLRDHUP  // all that TCP tells when the peer closes
                                   : reads ? POLLIN
                                           : POLLOUT),
                service, client);
  });
  const Nanos now = clock_.now();
  for (int s = 0; s < service_count_; ++s) {
    any |= services_[s].listener.fd() >= 0;
    if (accepts(services_[s], now))
      polled->add(services_[s].listener.fd(), POLLIN, &services_[s], nullptr);
  }
  if (!any) return false;
  if (poll(polled->polled, polled->count, milliseconds_to_deadline(patience_ms)) >= 0) return true;
  polled->count = 0;
  return errno == EINTR || poll(nullptr, 0, 100) == 0;  // a limit on descriptors below ours
}

// ----- Clients come -----

void ClientServer::accept_waiting(Service* service) {
  {
    LockGuard guard(lock_);
    if (!service->listener.is_ours()) {
      service->listener.forget();
      return;
    }
  }
  while (accepts(*service, clock_.now()) && accept_one(service)) {
  }
}

// Parts with the client that was silent longest, if another one is there to take its place.
bool ClientServer::make_place(Service* service) {
  pollfd listener = {service->listener.fd(), POLLIN, 0};
  Client* client = silent_longest(*service, clock_.now());
  if (client == nullptr || poll(&listener, 1, 0) != 1) return false;
  finish(service, client);
  return true;
}

// The lock is for the descriptor alone: nothing waits under it.
bool ClientServer::accept_one(Service* service) {
  if (free_place(*service) == nullptr && !make_place(service)) return false;
  LockGuard guard(lock_);
  const int fd =
      move_high(accept4(service->listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd < 0) {
    if (!would_wait() && errno != ECONNABORTED) service->rest_until = clock_.now() + kRest;
    return false;
  }
  Client* client = free_place(*service);
  client->used = client->sent = 0;
  client->out.clear();
  client->has_more = false;
  client->waits = Client::Waits::for_line;
  client->since = clock_.now();
  client->deadline = client->since + kLineTime;
  client->socket.hold(fd);
  return true;
}

// ----- One client -----

void ClientServer::go_on(Service* service, Client* client) {
  // One that waits for a time has nothing to say: it has gone.
  if (!client->socket.is_ours() || client->waits == Client::Waits::for_time)
    return finish(service, client);
  if (client->waits == Client::Waits::for_line) {
    const Line line = read_line(*service, client);
    if (line == Line::partial) return;
    if (line == Line::lost) return finish(service, client);
    answer(service, client);
  }
  if (!send_reply(service, client)) finish(service, client);
}

ClientServer::Line ClientServer::read_line(const Service& service, Client* client) {
  const size_t room = kLongestLine - client->used;
  const ssize_t n = recv(client->socket.fd(), client->line + client->used, room, MSG_DONTWAIT);
  if (n < 0) return would_wait() ? Line::partial : Line::lost;
  client->used += static_cast<size_t>(n);
  client->line[client->used] = 0;
  const bool whole = n == 0 || client->used == kLongestLine ||
                     service.responder->is_whole(client->line, client->used);
  return whole ? Line::whole : Line::partial;
}

void ClientServer::answer(Service* service, Client* client) {
  start_sending(client);
  if (service->local && !has_right(client->socket.fd()))
    service->responder->refuse(Refusal::other_user, &client->out);
  else if (client->used == 0 || client->line[0] == '\r' || client->line[0] == '\n')
    service->responder->refuse(Refusal::silent, &client->out);
  else
    ask_responder(service, client, true);
}

// What that takes is no time of the others.
void ClientServer::ask_responder(Service* service, Client* client, bool first) {
  const int number = static_cast<int>(client - service->clients);
  const Nanos before = clock_.now();
  client->has_more = first ? service->responder->begin(number, client->line, &client->out)
                           : service->responder->more(number, &client->out);
  const Nanos took = clock_.now() - before;
  if (took.n >= 1'000'000)
    for_each_client([took](Service*, Client* other) {
      other->deadline = other->deadline + took;
      other->since = other->since + took;
    });
}

void ClientServer::start_sending(Client* client) {
  client->waits = Client::Waits::for_reader;
  client->since = clock_.now();
  client->deadline = client->since + kReplyTime;
}

// False: all was sent, or nobody reads it.
bool ClientServer::send_reply(Service* service, Client* client) {
  for (int piece = 0; piece < kPiecesAtOnce; ++piece) {
    if (!send_piece(client)) return false;
    if (client->sent < client->out.size()) return true;
    if (!client->has_more) return false;
    client->sent = 0;
    client->out.clear();
    ask_responder(service, client, false);
    if (client->out.size() != 0 || !client->has_more) continue;
    client->waits = Client::Waits::for_time;
    client->deadline = service->responder->wait_until(static_cast<int>(client - service->clients));
    return true;
  }
  return true;
}

// False: nobody is there to read it.
bool ClientServer::send_piece(Client* client) {
  while (client->sent < client->out.size()) {
    if (!client->socket.is_ours()) return false;
    const ssize_t n = send(client->socket.fd(), client->out.data() + client->sent,
                           client->out.size() - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return would_wait();
    client->sent += static_cast<size_t>(n);
    client->since = clock_.now();
  }
  return true;
}

// What was sent and not read would make the system end the connection at once, and the reply with
// it: a part of it is read first.
void ClientServer::finish(Service* service, Client* client) {
  if (client->socket.is_ours())
    for (int i = 0;
         i < 4 && recv(client->socket.fd(), client->line, kLongestLine, MSG_DONTWAIT) > 0;)
      ++i;
  shut(client->socket);
  {
    LockGuard guard(lock_);
    client->socket.close();
  }
  service->responder->end(static_cast<int>(client - service->clients));
}

void ClientServer::close_all_in_child() {
  lock_.reset();
  for_each_client([](Service* service, Client* client) {
    client->socket.close();
    service->responder->end(static_cast<int>(client - service->clients));
  });
  for (int s = 0; s < service_count_; ++s) services_[s].listener.close();
}

}  // namespace llamalloc
