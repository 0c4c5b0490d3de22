// SPDX-License-Identifier: Apache-2.0
#include "telemetry/client_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include "os/fake/fake_pages.h"

namespace llamalloc {
namespace {

// `echo TEXT` is answered by TEXT, `long` by kPieces full pieces; `slow` takes a minute.
class Echo final : public Responder {
 public:
  static constexpr int kPieces = 200;
  explicit Echo(FakePages& clock) : clock_(clock) {}
  bool begin(int client, char* line, Text* out) override {
    if (char* line_end = strpbrk(line, "\r\n")) *line_end = 0;
    left[client] = strcmp(line, "long") == 0 ? kPieces : 0;
    if (strcmp(line, "slow") == 0) clock_.time = clock_.time + Nanos::seconds(60);
    if (left[client] == 0) out->add("%s\n", line);
    ++begun;
    return left[client] != 0;
  }
  bool more(int client, Text* out) override {
    while (out->size() + 1 < Text::kRoom) out->add("x");
    return --left[client] != 0;
  }
  void end(int) override { ++ended; }

  int begun = 0, ended = 0;

 private:
  FakePages& clock_;
  int left[ClientServer::kClients] = {};
};

class ClientServerTest : public testing::Test {
 protected:
  explicit ClientServerTest(bool impatient = false) {
    address_.sun_family = AF_UNIX;
    strcpy(address_.sun_path + 1, std::to_string(getpid()).c_str());  // in no file system
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    EXPECT_EQ(bind(listener_, name(), sizeof(address_)), 0);
    EXPECT_EQ(listen(listener_, 128), 0);
    EXPECT_TRUE(
        server_->listen_on(listener_, {echo_, places_, ClientServer::kClients, true, impatient}));
  }
  ~ClientServerTest() { server_->close_all_in_child(); }
  const sockaddr* name() const { return reinterpret_cast<const sockaddr*>(&address_); }

  int connected(const char* text = "") {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    EXPECT_EQ(connect(fd, name(), sizeof(address_)), 0) << strerror(errno);
    say(fd, text);
    return fd;
  }
  void say(int fd, const char* text) {
    EXPECT_EQ(send(fd, text, strlen(text), MSG_NOSIGNAL), static_cast<ssize_t>(strlen(text)));
  }
  void serve(int rounds = 4) {
    for (int i = 0; i < rounds; ++i) server_->serve(0);
  }
  void pass(Nanos time) {
    system_.time = system_.time + time;
    serve();
  }
  // What came so far; *over: and nothing more will.
  std::string heard(int fd, bool* over = nullptr) {
    std::string text;
    char part[4096];
    ssize_t n;
    while ((n = recv(fd, part, sizeof(part), 0)) > 0) text.append(part, static_cast<size_t>(n));
    if (over != nullptr) *over = n == 0;
    return text;
  }
  std::string all(int fd) {
    bool over = false;
    std::string text = heard(fd, &over);
    EXPECT_TRUE(over) << text.size();
    close(fd);
    return text;
  }

  FakePages system_;
  Echo echo_{system_};
  std::unique_ptr<ClientServer> server_ = std::make_unique<ClientServer>(system_);
  ClientServer::Client places_[ClientServer::kClients];
  sockaddr_un address_{};
  int listener_;
};

TEST_F(ClientServerTest, AnswersALineInOnePieceOrMany) {
  const int whole = connected("echo 1\r\nrest");
  const int parts = connected("ec");
  serve();
  EXPECT_EQ(heard(whole), "echo 1\n");
  EXPECT_EQ(heard(parts), "");
  say(parts, "ho 2\n");
  serve();
  EXPECT_EQ(all(parts), "echo 2\n");
  const int ended = connected("echo 3");
  shutdown(ended, SHUT_WR);
  serve();
  EXPECT_EQ(all(ended), "echo 3\n");
  EXPECT_EQ(echo_.begun, 3);
  EXPECT_EQ(echo_.ended, 3);
  close(whole);
}

TEST_F(ClientServerTest, SilentOnesHoldUpNobodyElse) {
  int silent[ClientServer::kClients - 1];
  for (int& fd : silent) fd = connected("ech");
  const int quick = connected("quick\n");
  serve();
  EXPECT_EQ(all(quick), "quick\n");
  pass(ClientServer::kLineTime);
  for (const int fd : silent) EXPECT_EQ(all(fd), "error: no command was sent\n");
}

TEST_F(ClientServerTest, MoreThanItServesWaitInTheBacklog) {
  int fds[3 * ClientServer::kClients];
  for (int& fd : fds) fd = connected();
  for (int round = 0; round < 3; ++round) pass(ClientServer::kLineTime);
  serve();
  pass(ClientServer::kLineTime);
  for (const int fd : fds) EXPECT_EQ(all(fd), "error: no command was sent\n");
}

TEST_F(ClientServerTest, ALongReplyWaitsForItsReaderForAWhile) {
  const int reader = connected("long\n"), lazy = connected("long\n");
  std::string text;
  bool over = false;
  for (int i = 0; i < 1000 && !over; ++i) {
    serve(1);
    text += heard(reader, &over);
  }
  EXPECT_TRUE(over);
  EXPECT_EQ(text.size(), Echo::kPieces * (Text::kRoom - 1));
  EXPECT_EQ(echo_.ended, 1);
  pass(ClientServer::kReplyTime);
  EXPECT_EQ(echo_.ended, 2);
  EXPECT_LT(all(lazy).size(), Echo::kPieces * Text::kRoom);
  close(reader);
}

TEST_F(ClientServerTest, WhatACommandTakesIsNoTimeOfOthers) {
  const int slow = connected("slow\n"), early = connected("ea");
  serve();
  say(early, "rly\n");
  serve();
  EXPECT_EQ(all(slow), "slow\n");
  EXPECT_EQ(all(early), "early\n");
}

TEST_F(ClientServerTest, AnOverlongLineIsCut) {
  const int fd = connected(std::string(ClientServer::kLongestLine + 500, 'a').c_str());
  serve();
  EXPECT_EQ(heard(fd), std::string(ClientServer::kLongestLine, 'a') + '\n');
  close(fd);
}

TEST_F(ClientServerTest, AClientThatLeavesIsForgotten) {
  for (int i = 0; i < 50; ++i) {
    const int fd = connected(i % 2 ? "long\n" : "l");
    if (i % 3) serve();
    close(fd);
    serve();
  }
  const int fd = connected("here\n");
  serve();
  EXPECT_EQ(all(fd), "here\n");
}

// Numbers of ours that the program closed, or uses for files of its own.
TEST_F(ClientServerTest, DescriptorsThatTheProgramTookAreLeftAlone) {
  const int client = connected("l");
  serve();
  for (int fd = 800; fd < 1024; ++fd) close(fd);  // os/descriptor.h: ours are high
  int ours[200];
  for (int& fd : ours) fd = fcntl(client, F_DUPFD, 800);
  serve();
  EXPECT_EQ(echo_.ended, 1);
  for (const int fd : ours) EXPECT_EQ(close(fd), 0) << fd;
  close(client);
  close(listener_);
  EXPECT_FALSE(server_->serve(0) && server_->serve(0));
}

class ImpatientServerTest : public ClientServerTest {
 protected:
  ImpatientServerTest() : ClientServerTest(true) {}
};

TEST_F(ImpatientServerTest, ANewClientTakesThePlaceOfTheOneSilentLongest) {
  int silent[ClientServer::kClients];
  for (int& fd : silent) {
    fd = connected("ec");
    pass(Nanos::millis(1));
  }
  const int quick = connected("quick\n");
  serve();
  EXPECT_EQ(heard(quick), "") << "all are given some time";
  pass(ClientServer::kGrace);
  EXPECT_EQ(all(quick), "quick\n");
  EXPECT_EQ(all(silent[0]), "");
  say(silent[1], "ho 1\n");
  serve();
  EXPECT_EQ(all(silent[1]), "echo 1\n");
}

TEST_F(ImpatientServerTest, AThousandThatSaySomethingWrongOrNothingKeepNobodyOut) {
  int fds[100];
  for (int& fd : fds) fd = connected();
  const int quick = connected("quick\n");
  for (int i = 0; i < 20; ++i) pass(ClientServer::kGrace);
  EXPECT_EQ(all(quick), "quick\n");
  for (const int fd : fds) close(fd);
}

// `wait` is answered ten seconds later.
class Patient final : public Responder {
 public:
  explicit Patient(FakePages& clock) : clock_(clock) {}
  bool begin(int, char*, Text*) override {
    due_ = clock_.time + Nanos::seconds(10);
    return true;
  }
  bool more(int, Text* out) override {
    if (clock_.time < due_) return true;
    out->add("now\n");
    return false;
  }
  Nanos wait_until(int) const override { return due_; }
  void end(int) override { ++ended; }
  int ended = 0;

 private:
  FakePages& clock_;
  Nanos due_{};
};

TEST_F(ClientServerTest, AReplyMayComeLater) {
  Patient patient(system_);
  ClientServer server(system_);
  const auto places = std::make_unique<ClientServer::Client[]>(2);
  const int listener = dup(listener_);
  ASSERT_TRUE(server.listen_on(listener, {patient, places.get(), 2, true, true}));
  const int fd = connected("wait\n"), gone = connected("wait\n");
  const auto pass_here = [&](Nanos time) {
    system_.time = system_.time + time;
    for (int i = 0; i < 4; ++i) server.serve(0);
  };
  pass_here({});
  pass_here(Nanos::seconds(9));
  EXPECT_EQ(heard(fd), "");
  close(gone);
  pass_here({});
  EXPECT_EQ(patient.ended, 1);
  pass_here(Nanos::seconds(2));
  EXPECT_EQ(all(fd), "now\n");
  EXPECT_EQ(patient.ended, 2);
  const int half = connected("wait\n");  // its end is all that TCP tells of a peer that closed
  pass_here({});
  EXPECT_EQ(patient.ended, 2);
  shutdown(half, SHUT_WR);
  pass_here({});
  EXPECT_EQ(patient.ended, 3);
  close(half);
  server.close_all_in_child();
}

TEST_F(ClientServerTest, AClosedListenerWakesNobody) {
  Patient patient(system_);
  ClientServer server(system_);
  const auto places = std::make_unique<ClientServer::Client[]>(2);
  const int listener = dup(listener_);
  ASSERT_TRUE(server.listen_on(listener, {patient, places.get(), 2, true, true}));
  const int fd = connected("wait\n");
  for (int i = 0; i < 4; ++i) server.serve(0);
  close(listener);
  server.serve(0);
  ASSERT_EQ(server.listener().fd(), -1);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(server.serve(200));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(150));
  close(fd);
  server.close_all_in_child();
}

TEST_F(ClientServerTest, WhoMayServeNobodyLeavesItsClients) {
  static bool may;
  may = true;
  Patient patient(system_);
  ClientServer server(system_, [] { return may; });
  const auto places = std::make_unique<ClientServer::Client[]>(2);
  ASSERT_TRUE(server.listen_on(dup(listener_), {patient, places.get(), 2, true, true}));
  const int fd = connected("wait\n");
  EXPECT_TRUE(server.serve(0));
  may = false;
  const int late = connected("wait\n");
  EXPECT_FALSE(server.serve(0));
  pollfd waiting = {listener_, POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 0), 1) << "it was not accepted";
  close(fd), close(late);
  server.close_all_in_child();
}

}  // namespace
}  // namespace llamalloc
