// SPDX-License-Identifier: Apache-2.0
#include "runtime/listen_address.h"

#include <gtest/gtest.h>

#include <string>

namespace llamalloc {
namespace {

bool parses(const char* text, bool own) {
  ListenAddress address;
  return parse_listen_address(text, &address) == nullptr && address.is_own() == own;
}

TEST(ListenAddress, ReadsWhatAnOptionMaySay) {
  for (const char* own : {"127.0.0.1:9109", "127.5.5.5:0", "[::1]:65535", "unix:/run/x.sock"})
    EXPECT_TRUE(parses(own, true)) << own;
  for (const char* open : {"0.0.0.0:9109", "10.0.0.1:80", "[::]:80", "[::ffff:127.0.0.1]:80"})
    EXPECT_TRUE(parses(open, false)) << open;
}

TEST(ListenAddress, RefusesTheRest) {
  const std::string longest = "unix:/" + std::string(107, 'x');
  ListenAddress address;
  for (const char* bad :
       {"", "9109", ":9109", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:80",
        "127.0.0.1:8x", "[::1]", "[::1]80", "[::1:80", "unix:", longest.c_str()})
    EXPECT_NE(parse_listen_address(bad, &address), nullptr) << bad;
}

TEST(ListenAddress, PrintsWhatASocketGot) {
  ListenAddress address;
  ASSERT_EQ(parse_listen_address("127.0.0.1:0", &address), nullptr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, &address.any, address.length), 0);
  char text[64];
  print_address(fd, text, sizeof(text));
  EXPECT_TRUE(parses(text, true)) << text;
  EXPECT_FALSE(std::string(text).ends_with(":0")) << text;
}

}  // namespace
}  // namespace llamalloc
