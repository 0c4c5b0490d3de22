// SPDX-License-Identifier: Apache-2.0
// The part of HTTP/1.1 (RFC 9112) that a server of read-only pages needs: reads the head of a
// request, writes the head of a response, and frames its body in chunks.
//
//   GET /debug/pprof/heap?seconds=30 HTTP/1.1        -> path, query, wants_body, chunked
//   Host: 127.0.0.1:9109
//
// A browser on the same machine may be led here by a foreign page whose name resolves to our
// address (DNS rebinding). So a request must name us by an address or as localhost; other names
// are refused.
#pragma once

#include <cstdint>

#include "telemetry/text.h"

namespace llamalloc {

enum class HttpStatus : uint16_t {
  ok = 200,
  bad_request = 400,
  forbidden = 403,
  not_found = 404,
  not_allowed = 405,
  timeout = 408,
  too_large = 431,
  failed = 500,
  busy = 503,
};
const char* reason_of(HttpStatus status);

struct HttpRequest {
  const char* path = "";   // without the query; a part of the parsed text
  const char* query = "";  // what follows '?'
  bool wants_body = true;  // GET; false: HEAD
  bool chunked = false;    // HTTP/1.1 or later: the body may come in chunks
};

// Whether the text has the empty line that ends a head.
bool http_head_is_whole(const char* text, size_t length);
// Reads a whole head and cuts it into strings. local: over a Unix socket, where any name is good.
HttpStatus parse_http(char* head, bool local, HttpRequest* out);
// The number after `name=` in the query, 0 and *absent if there is none. False: no number up to
// `most`.
bool http_number(const char* query, const char* name, uint64_t most, uint64_t* number,
                 bool* absent);

void add_http_head(HttpStatus status, const char* type, bool chunked, Text* out,
                   bool compressed = false);
// A piece of the body: as it is, or as one chunk. An empty one adds nothing.
void add_http_piece(const char* data, size_t length, bool chunked, Text* out);
inline constexpr char kHttpLastChunk[] = "0\r\n\r\n";
// What a chunk needs beside its data.
inline constexpr size_t kChunkFrame = 8;
// A whole response of one line.
void add_http_error(HttpStatus status, const char* why, Text* out);

}  // namespace llamalloc
