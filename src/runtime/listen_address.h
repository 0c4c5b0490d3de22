// SPDX-License-Identifier: Apache-2.0
// The address of a listening socket, from the text of an option.
//
//   127.0.0.1:9109   [::1]:0   unix:/run/x.sock
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace llamalloc {

inline constexpr char kUnixAddress[] = "unix:";

struct ListenAddress {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_un local;
    sockaddr_storage room;
  };
  socklen_t length = 0;

  ListenAddress() : room{} {}
  bool is_local() const { return any.sa_family == AF_UNIX; }
  // Whether no other machine can reach it.
  bool is_own() const;
};

// Null, or why the text is no address.
const char* parse_listen_address(const char* text, ListenAddress* out);
// A Unix socket at this path; null, or why not.
const char* local_address(const char* path, ListenAddress* out);
// The address that a socket got, as text; cut to room.
void print_address(int socket, char* out, size_t room);

}  // namespace llamalloc
