// SPDX-License-Identifier: Apache-2.0
#include "telemetry/http.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace llamalloc {
namespace {

struct Parsed {
  std::string text;
  HttpRequest request;
  HttpStatus status;
  explicit Parsed(std::string head, bool local = false) : text(std::move(head)) {
    status = parse_http(text.data(), local, &request);
  }
};

TEST(Http, ReadsARequest) {
  const Parsed p(
      "GET /debug/pprof/heap?a=1&seconds=30 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX: y\r\n\r\n");
  EXPECT_EQ(p.status, HttpStatus::ok);
  EXPECT_STREQ(p.request.path, "/debug/pprof/heap");
  EXPECT_STREQ(p.request.query, "a=1&seconds=30");
  EXPECT_TRUE(p.request.wants_body);
  EXPECT_TRUE(p.request.chunked);
}

TEST(Http, ReadsOldAndBareForms) {
  const Parsed p("HEAD / HTTP/1.0\n\n");
  EXPECT_EQ(p.status, HttpStatus::ok);
  EXPECT_FALSE(p.request.wants_body);
  EXPECT_FALSE(p.request.chunked);
  EXPECT_STREQ(p.request.query, "");
}

TEST(Http, RefusesWhatIsNoRequest) {
  for (const char* bad :
       {"", "\r\n\r\n", "GET\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/2\r\n\r\n",
        "GET x HTTP/1.1\r\n\r\n", " / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 1.2.3.4\r\n", "GET / HTTP/1.1"})
    EXPECT_EQ(Parsed(bad).status, HttpStatus::bad_request) << bad;
  for (const char* other : {"POST / HTTP/1.1\r\n\r\n", "get / HTTP/1.1\r\n\r\n"})
    EXPECT_EQ(Parsed(other).status, HttpStatus::not_allowed) << other;
}

TEST(Http, AnswersOnlyToItsOwnNames) {
  for (const char* good :
       {"127.0.0.1", "10.1.2.3:9109", "[::1]:80", "localhost", "LocalHost:1", ""})
    EXPECT_EQ(Parsed(std::string("GET / HTTP/1.1\r\nHOST: ") + good + " \r\n\r\n").status,
              HttpStatus::ok)
        << good;
  for (const char* bad : {"evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example"}) {
    const std::string head = std::string("GET / HTTP/1.1\r\nhost:") + bad + "\r\n\r\n";
    EXPECT_EQ(Parsed(head).status, HttpStatus::forbidden) << bad;
    EXPECT_EQ(Parsed(head, true).status, HttpStatus::ok) << bad;
  }
}

TEST(Http, FindsTheEndOfAHead) {
  for (const char* whole : {"\n\n", "a\r\n\r\n", "a\n\r\nrest", "\r\n\r\n"})
    EXPECT_TRUE(http_head_is_whole(whole, strlen(whole))) << whole;
  for (const char* part : {"", "a", "\n", "a\r\n", "a\r\n\r", "a\nb\n", "\r\r\n"})
    EXPECT_FALSE(http_head_is_whole(part, strlen(part))) << part;
}

TEST(Http, ReadsNumbers) {
  uint64_t n;
  bool absent;
  const auto read = [&](const char* query, const char* name = "seconds") {
    return http_number(query, name, 60, &n, &absent);
  };
  EXPECT_TRUE(read("") && absent);
  EXPECT_TRUE(read("xseconds=3") && absent);
  EXPECT_TRUE(read("seconds") && absent);
  EXPECT_TRUE(read("a&seconds=60&b") && n == 60 && !absent);
  EXPECT_TRUE(read("seconds=9&page=8", "page") && n == 8 && !absent);
  for (const char* bad : {"seconds=", "seconds=61", "seconds=-1", "seconds=1s", "seconds=0x1",
                          "seconds=99999999999999999999999999"})
    EXPECT_FALSE(read(bad)) << bad;
}

TEST(Http, FramesPieces) {
  const auto text = std::make_unique<Text>();
  add_http_piece("0123456789abcdefX", 17, true, text.get());
  add_http_piece("", 0, true, text.get());
  add_http_piece("plain", 5, false, text.get());
  EXPECT_EQ(std::string(text->data(), text->size()), "11\r\n0123456789abcdefX\r\nplain");
}

TEST(Http, AnErrorSaysItsLength) {
  const auto text = std::make_unique<Text>();
  add_http_error(HttpStatus::not_allowed, "GET and HEAD only", text.get());
  const std::string all(text->data(), text->size());
  EXPECT_TRUE(all.starts_with("HTTP/1.1 405 Method Not Allowed\r\n")) << all;
  EXPECT_NE(all.find("Content-Length: 18\r\n"), std::string::npos) << all;
  EXPECT_NE(all.find("Allow: GET, HEAD\r\n"), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("\r\n\r\nGET and HEAD only\n")) << all;
}

}  // namespace
}  // namespace llamalloc
