// SPDX-License-Identifier: Apache-2.0
#include "runtime/listen_address.h"
#include "base/begins.h"

#include <arpa/inet.h>

#include <cstdio>
#include <cstring>

namespace llamalloc {
namespace {

constexpr size_t kLongestHost = INET6_ADDRSTRLEN;

bool parse_port(const char* text, uint16_t* port) {
  unsigned value = 0;
  const char* digit = text;
  for (; *digit >= '0' && *digit <= '9' && value <= 65535; ++digit)
    value = value * 10 + static_cast<unsigned>(*digit - '0');
  *port = htons(static_cast<uint16_t>(value));
  return digit != text && *digit == 0 && value <= 65535;
}

// The host without brackets; null: the text is not HOST:PORT.
const char* find_port(const char* text, char (&host)[kLongestHost]) {
  const bool bracket = text[0] == '[';
  const char* start = text + bracket;
  const char* end = strchr(start, bracket ? ']' : ':');
  if (end == nullptr || static_cast<size_t>(end - start) >= kLongestHost) return nullptr;
  memcpy(host, start, static_cast<size_t>(end - start));
  host[end - start] = 0;
  end += bracket;
  return *end == ':' ? end + 1 : nullptr;
}

}  // namespace

bool ListenAddress::is_own() const {
  if (any.sa_family == AF_INET) return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  static constexpr uint8_t kLoopback[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return is_local() || memcmp(&v6.sin6_addr, kLoopback, sizeof(kLoopback)) == 0;
}

const char* local_address(const char* path, ListenAddress* out) {
  if (path[0] == 0) return "the path is missing";
  if (strlen(path) >= sizeof(out->local.sun_path)) return "path longer than 107 bytes";
  out->local.sun_family = AF_UNIX;
  memcpy(out->local.sun_path, path, strlen(path) + 1);
  out->length = sizeof(out->local);
  return nullptr;
}

const char* parse_listen_address(const char* text, ListenAddress* out) {
  if (begins(text, kUnixAddress)) return local_address(text + sizeof(kUnixAddress) - 1, out);
  char host[kLongestHost];
  uint16_t port = 0;
  const char* const port_text = find_port(text, host);
  const bool six = text[0] == '[';
  out->any.sa_family = six ? AF_INET6 : AF_INET;
  out->length = six ? sizeof(out->v6) : sizeof(out->v4);
  void* const number = six ? static_cast<void*>(&out->v6.sin6_addr) : &out->v4.sin_addr;
  if (port_text == nullptr || !parse_port(port_text, &port) ||
      inet_pton(out->any.sa_family, host, number) != 1)
    return "expected 127.0.0.1:PORT, [::1]:PORT or unix:PATH";
  (six ? out->v6.sin6_port : out->v4.sin_port) = port;
  return nullptr;
}

void print_address(int socket, char* out, size_t room) {
  ListenAddress address;
  address.length = sizeof(address.room);
  char host[kLongestHost] = "";
  if (getsockname(socket, &address.any, &address.length) != 0) return;
  if (address.is_local()) {
    snprintf(out, room, "unix:%s", address.local.sun_path);
    return;
  }
  const bool six = address.any.sa_family == AF_INET6;
  inet_ntop(address.any.sa_family,
            six ? static_cast<const void*>(&address.v6.sin6_addr) : &address.v4.sin_addr, host,
            sizeof(host));
  snprintf(out, room, six ? "[%s]:%d" : "%s:%d", host,
           ntohs(six ? address.v6.sin6_port : address.v4.sin_port));
}

}  // namespace llamalloc
