// SPDX-License-Identifier: Apache-2.0
// What a client may send to the control socket, in one piece or in two: each is answered by one
// reply that begins with `ok` or `error: ` and ends its last line, and no option leaves its bounds.
// Commands that write files are left out.
//   first byte: where the text is cut in two; then the text
#include "runtime/control.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/check.h"
#include "runtime/process.h"

namespace llamalloc {
namespace {

std::string path_of_socket() {
  static std::string path;
  if (!path.empty()) return path;
  char folder[] = "/tmp/control_fuzz.XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  path = std::string(folder) + "/socket";
  open_sockets(path.c_str(), "");
  atexit([] {
    unlink(path.c_str());
    rmdir(path.substr(0, path.rfind('/')).c_str());
  });
  return path;
}

int connected() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, path_of_socket().c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

// The reader waits for the whole line, so it may come in pieces. It may have answered, and closed,
// before the last one.
std::string answer_to(const std::string& text, size_t cut) {
  const int fd = connected();
  cut = std::min(cut, text.size());
  for (const std::string& part : {text.substr(0, cut), text.substr(cut)})
    CHECK(send(fd, part.data(), part.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(part.size()) ||
          errno == EPIPE);
  shutdown(fd, SHUT_WR);
  std::string reply;
  char buffer[4096];
  while (const ssize_t n = recv(fd, buffer, sizeof(buffer), 0)) {
    if (n < 0) break;  // more was sent than a line holds: the rest was thrown away
    reply.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return reply;
}

void expect_in_bounds(uint64_t value, uint64_t low, uint64_t high) {
  CHECK(value >= low && value <= high);
}

void expect_bounds() {
  const Options& options = process.options;
  expect_in_bounds(options.sample_interval, 0, uint64_t{1} << 40);
  expect_in_bounds(options.release_delay, 0, 3'600'000'000'000);
  expect_in_bounds(options.retain, 0, uint64_t{1} << 40);
}

void run(const std::string& text, size_t cut) {
  for (const char* writes : {"profile ", "heap ", "window "})  // to a file of any name
    if (text.starts_with(writes)) return;
  const std::string reply = answer_to(text, cut);
  if (text.size() <= 4000) CHECK(reply.starts_with("ok\n") || reply.starts_with("error: "));
  CHECK(reply.empty() || reply.back() == '\n');
  expect_bounds();
}

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  llamalloc::run(text, data[0]);
  return 0;
}
