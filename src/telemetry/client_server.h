// SPDX-License-Identifier: Apache-2.0
// Serves the clients of listening sockets on one thread: of the control socket, and of HTTP. Each
// sends a request and gets a reply, piece by piece, at its own speed. The thread blocks only in
// poll(), without a timeout while there is no client.
//
//   backlog --> accepted --request--> answered --all sent--> closed
//                  |                    |  ^
//                  |               waits for a time (a profile of the next 30 s)
//                  +----- too late -----+----> closed
//
// A service has places for so many clients; the others wait in the backlog. Each has kLineTime for
// its request and kReplyTime to read its reply. No client takes the place of one of another
// service. In a service that is impatient, a new client takes the place of the one that has been
// silent longest, after kGrace: so those that send nothing cannot keep others out.
//
// The program may close our descriptors, or reuse their numbers for its own files. So each
// descriptor is used only while it still is our socket. Descriptors are opened and
// closed under lock(), which a fork takes, so that the child knows all of them. Nothing is read or
// written under it.
#pragma once

#include <cstdint>
#include <cstring>

#include "os/descriptor.h"
#include "os/lock.h"
#include "os/pages.h"
#include "telemetry/text.h"

namespace llamalloc {

// Why a client gets no reply to its request.
enum class Refusal : uint8_t { silent, other_user };

// Produces the replies of one service. Its clients have numbers from 0 on.
class Responder {
 public:
  // Whether the request is complete. `text` ends with a 0 at text[used].
  virtual bool is_whole(const char* text, size_t used) const {
    return memchr(text, '\n', used) != nullptr;
  }
  // Adds the first piece of the reply to the client's request; may change `line`. True: call more()
  // for the rest.
  virtual bool begin(int client, char* line, Text* out) = 0;
  // Adds the next piece. False: it was the last. If it adds nothing, it is called again when
  // wait_until() has come.
  virtual bool more(int client, Text* out) = 0;
  virtual Nanos wait_until(int) const { return {}; }
  virtual void refuse(Refusal why, Text* out) {
    out->add("error: %s\n",
             why == Refusal::silent ? "no command was sent" : "the client belongs to another user");
  }
  // The client is gone, whether all was sent or not.
  virtual void end(int client) = 0;

 protected:
  ~Responder() = default;
};

class ClientServer {
 public:
  static constexpr int kServices = 2;
  static constexpr int kClients = 8;       // places of the control socket
  static constexpr int kMostClients = 32;  // of all services
  static constexpr size_t kLongestLine = 4199;
  static constexpr Nanos kLineTime = Nanos::seconds(1);
  static constexpr Nanos kReplyTime = Nanos::seconds(5);
  static constexpr Nanos kGrace = Nanos::millis(50);

  // The place of one client. Callers provide the memory.
  struct Client {
    enum class Waits : uint8_t { for_line, for_reader, for_time };
    OpenFile socket WRITTEN_UNDER(lock_);  // by the thread that serves, which reads it without
    Waits waits = Waits::for_line;
    bool has_more = false;  // the responder does
    Nanos deadline{};
    Nanos since{};    // when it came; when it last read
    size_t used = 0;  // of line
    size_t sent = 0;  // of out
    char line[kLongestLine + 1];
    Text out;
  };

  // may_serve: asked before a client is served, which takes calls that a filter of system calls may
  // not allow. Where it says no, nobody is served any more. Null: always.
  explicit ClientServer(PageSource& clock, bool (*may_serve)() = nullptr)
      : clock_(clock), may_serve_(may_serve) {}

  // The socket belongs to the server from here on. places: uninitialised memory for `count`
  // clients. local: a Unix socket, whose clients must belong to the user or to root.
  struct Offer {
    Responder& responder;
    Client* places;
    int count;
    bool local;
    bool impatient;
  };
  bool listen_on(int fd, const Offer& offer);
  // Serves the clients that are ready; if none is, waits for at most `patience_ms` (-1: for ever).
  // False: the program closed the listening sockets, so there is nothing left to serve; or it may
  // serve nobody.
  bool serve(int patience_ms = -1);

  const OpenFile& listener(int service = 0) const { return services_[service].listener; }
  // Before a fork, and after it in the parent.
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }
  // In the child, which has one thread and serves nobody.
  void close_all_in_child();

 private:
  struct Service {
    OpenFile listener WRITTEN_UNDER(lock_);
    Responder* responder = nullptr;
    Client* clients = nullptr;
    int count = 0;
    bool local = true;
    bool impatient = false;
    Nanos rest_until{};  // no client is accepted before: there were no free descriptors
  };
  struct Poll;  // what wait() asks for and gets

  template <typename F>
  void for_each_client(F&& f);
  static Client* free_place(const Service& service);
  Client* silent_longest(const Service& service, Nanos now) const;
  bool accepts(const Service& service, Nanos now) const;
  int milliseconds_to_deadline(int at_most);
  bool wait(int patience_ms, Poll* polled);
  void accept_waiting(Service* service);
  bool accept_one(Service* service);
  bool make_place(Service* service);
  void go_on(Service* service, Client* client);
  enum class Line : uint8_t { partial, whole, lost };
  Line read_line(const Service& service, Client* client);
  void answer(Service* service, Client* client);
  void ask_responder(Service* service, Client* client, bool first);
  void part_with_late_ones(Nanos now);
  void start_sending(Client* client);
  bool send_reply(Service* service, Client* client);
  bool send_piece(Client* client);
  void finish(Service* service, Client* client);

  PageSource& clock_;
  bool (*const may_serve_)();
  Lock lock_{LockRank::control};
  Service services_[kServices];
  int service_count_ = 0;  // before there is a thread
};

}  // namespace llamalloc
