// SPDX-License-Identifier: Apache-2.0
#include "telemetry/http.h"

#include <cstring>

namespace llamalloc {
namespace {

bool is_address_character(char c) {
  return (c >= '0' && c <= '9') || c == '.';
}

// An IPv4 address, an IPv6 address in brackets, or localhost; then perhaps :PORT.
bool is_own_name(const char* host) {
  if (strncasecmp(host, "localhost", 9) == 0) return host[9] == 0 || host[9] == ':';
  if (host[0] == '[') return strchr(host, ']') != nullptr;
  while (is_address_character(*host)) ++host;
  return *host == 0 || *host == ':';
}

// The next line without its end, or null. *rest: what follows.
char* next_line(char** rest) {
  char* line = *rest;
  char* end = strchr(line, '\n');
  if (end == nullptr) return nullptr;
  *rest = end + 1;
  if (end != line && end[-1] == '\r') --end;
  *end = 0;
  return line;
}

bool read_method(const char* method, bool* wants_body) {
  *wants_body = strcmp(method, "GET") == 0;
  return *wants_body || strcmp(method, "HEAD") == 0;
}

bool is_version(const char* text) {
  return strncmp(text, "HTTP/1.", 7) == 0 && text[7] >= '0' && text[7] <= '9' && text[8] == 0;
}

// False: not METHOD TARGET VERSION.
bool cut_request_line(char* line, char** target, char** version) {
  *target = strchr(line, ' ');
  if (*target == nullptr || *target == line) return false;
  *(*target)++ = 0;
  *version = strchr(*target, ' ');
  if (*version == nullptr) return false;
  *(*version)++ = 0;
  return (*target)[0] == '/' && is_version(*version);
}

// The value of a header line if it has that name, else null.
char* value_of(char* line, const char* name) {
  const size_t length = strlen(name);
  if (strncasecmp(line, name, length) != 0 || line[length] != ':') return nullptr;
  char* value = line + length + 1;
  while (*value == ' ' || *value == '\t') ++value;
  char* end = value + strlen(value);
  while (end != value && (end[-1] == ' ' || end[-1] == '\t')) --end;
  *end = 0;
  return value;
}

}  // namespace

const char* reason_of(HttpStatus status) {
  switch (status) {
    case HttpStatus::ok:
      return "OK";
    case HttpStatus::bad_request:
      return "Bad Request";
    case HttpStatus::forbidden:
      return "Forbidden";
    case HttpStatus::not_found:
      return "Not Found";
    case HttpStatus::not_allowed:
      return "Method Not Allowed";
    case HttpStatus::timeout:
      return "Request Timeout";
    case HttpStatus::too_large:
      return "Request Header Fields Too Large";
    case HttpStatus::failed:
      return "Internal Server Error";
    case HttpStatus::busy:
      return "Service Unavailable";
  }
  return "";
}

bool http_head_is_whole(const char* text, size_t length) {
  for (const char* end = text + length; text != end; ++text) {
    if (*text != '\n') continue;
    const char* next = text + 1;
    if (next != end && *next == '\r') ++next;
    if (next != end && *next == '\n') return true;
  }
  return false;
}

HttpStatus parse_http(char* head, bool local, HttpRequest* out) {
  char *rest = head, *target, *version;
  *out = {};
  char* line = next_line(&rest);
  if (line == nullptr || !cut_request_line(line, &target, &version)) return HttpStatus::bad_request;
  if (!read_method(line, &out->wants_body)) return HttpStatus::not_allowed;
  out->chunked = version[7] >= '1';
  if (char* query = strchr(target, '?')) {
    *query = 0;
    out->query = query + 1;
  }
  out->path = target;
  while ((line = next_line(&rest)) != nullptr && *line != 0) {
    const char* host = value_of(line, "host");
    if (host != nullptr && !local && !is_own_name(host)) return HttpStatus::forbidden;
  }
  return line != nullptr ? HttpStatus::ok : HttpStatus::bad_request;
}

bool http_number(const char* query, const char* name, uint64_t most, uint64_t* number,
                 bool* absent) {
  const size_t length = strlen(name);
  *number = 0;
  *absent = true;
  while (query != nullptr && !(strncmp(query, name, length) == 0 && query[length] == '=')) {
    query = strchr(query, '&');
    if (query != nullptr) ++query;
  }
  if (query == nullptr) return true;
  *absent = false;
  const char* digit = query + length + 1;
  const char* const first = digit;
  for (; *digit >= '0' && *digit <= '9' && *number <= most; ++digit)
    *number = *number * 10 + static_cast<uint64_t>(*digit - '0');
  return digit != first && (*digit == 0 || *digit == '&') && *number <= most;
}

void add_http_head(HttpStatus status, const char* type, bool chunked, Text* out, bool compressed) {
  out->add(
      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\nConnection: "
      "close\r\n%s%s\r\n",
      static_cast<int>(status), reason_of(status), type,
      compressed ? "Content-Encoding: gzip\r\n" : "",
      chunked ? "Transfer-Encoding: chunked\r\n" : "");
}

void add_http_piece(const char* data, size_t length, bool chunked, Text* out) {
  if (length == 0) return;
  if (chunked) out->add("%zx\r\n", length);
  out->append(data, length);
  if (chunked) out->append("\r\n", 2);
}

void add_http_error(HttpStatus status, const char* why, Text* out) {
  out->add(
      "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
      "%s%sConnection: close\r\n\r\n%s\n",
      static_cast<int>(status), reason_of(status), strlen(why) + 1,
      status == HttpStatus::not_allowed ? "Allow: GET, HEAD\r\n" : "",
      status == HttpStatus::busy ? "Retry-After: 5\r\n" : "", why);
}

}  // namespace llamalloc
