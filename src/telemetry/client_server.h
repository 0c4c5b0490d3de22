// SPDX-License-Identifier: Apache-2.0
// Serves the clients of a listening Unix socket on one thread. Each sends a line and gets a reply,
// piece by piece, at its own speed. The thread blocks only in poll(), without a timeout while there
// is no client.
//
//   backlog --> accepted --line--> answered --all sent--> closed
//                  |                  |
//                  +---- too late ----+----> closed
//
// At most kClients are served at once; the others wait in the backlog. Each has kLineTime for its
// line and kReplyTime to read its reply.
//
// The program may close our descriptors, or reuse their numbers for its own files. So each
// descriptor is used only while it still is our socket (same inode). Descriptors are opened and
// closed under lock(), which a fork takes, so that the child knows all of them. Nothing is read or
// written under it.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "os/lock.h"
#include "os/pages.h"
#include "telemetry/text.h"

namespace llamalloc {

// Produces the replies. Clients have numbers below kClients.
class Responder {
 public:
  // Adds the first piece of the reply to the client's line; may change `line`. True: call more()
  // for the rest.
  virtual bool begin(int client, char* line, Text* out) = 0;
  // Adds the next piece. False: it was the last.
  virtual bool more(int client, Text* out) = 0;
  // The client is gone, whether all was sent or not.
  virtual void end(int client) = 0;

 protected:
  ~Responder() = default;
};

// A socket of ours, as long as the program leaves it alone.
struct OwnSocket {
  int fd = -1;
  ino_t inode = 0;

  // fd: -1 or a socket of ours. False: none.
  bool hold(int socket);
  bool is_ours() const;
  // Ends the connection, also where a forked child has a copy.
  void shut();
  void close();
};

class ClientServer {
 public:
  static constexpr int kClients = 8;
  static constexpr size_t kLongestLine = 4199;
  static constexpr Nanos kLineTime = Nanos::seconds(1);
  static constexpr Nanos kReplyTime = Nanos::seconds(5);

  ClientServer(PageSource& clock, Responder& responder) : clock_(clock), responder_(responder) {}

  // Sockets from here on belong to the server.
  bool listen_on(int fd) { return listener_.hold(fd); }
  // Serves the clients that are ready; if none is, waits for at most `patience_ms` (-1: for ever).
  // False: the program closed the listening socket, so there is nothing left to serve.
  bool serve(int patience_ms = -1);

  const OwnSocket& listener() const { return listener_; }
  // Before a fork, and after it in the parent.
  Lock& lock() RETURN_CAPABILITY(lock_) { return lock_; }
  // In the child, which has one thread and serves nobody.
  void close_all_in_child();

 private:
  struct Client {
    enum class Waits : uint8_t { for_line, for_reader };
    OwnSocket socket WRITTEN_UNDER(lock_);  // by the thread that serves, which reads it without
    Waits waits = Waits::for_line;
    bool has_more = false;  // the responder does
    Nanos deadline{};
    size_t used = 0;  // of line
    size_t sent = 0;  // of out
    char line[kLongestLine + 1];
    Text out;
  };

  bool has_room() const;
  int milliseconds_to_deadline(int at_most) const;
  bool wait(int patience_ms, bool* somebody_new, bool (*ready)[kClients]);
  void accept_waiting();
  bool accept_one();
  void go_on(int client);
  enum class Line : uint8_t { partial, whole, lost };
  Line read_line(Client* client);
  void answer(int client);
  void ask_responder(int client);
  void part_with_late_ones(Nanos now);
  void start_sending(Client* client);
  bool send_reply(int client);
  bool send_piece(Client* client);
  void finish(int client);

  PageSource& clock_;
  Responder& responder_;
  Lock lock_{LockRank::control};
  OwnSocket listener_ WRITTEN_UNDER(lock_);  // as are clients' sockets
  Nanos rest_until_{};  // no client is accepted before: there were no free descriptors
  Client clients_[kClients];
};

}  // namespace llamalloc
