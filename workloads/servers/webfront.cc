// SPDX-License-Identifier: Apache-2.0
// A web front end with a session store. A request is parsed into maps of strings and rendered into
// a tree of views; all of it lives until its client has read the answer (0.2 to 2.8 s). Logins,
// which come at the same time, make sessions: an unordered_map of strings with a history that grows
// by one string with each visit. Sessions stay until 16,000 newer ones have come; counters of paths
// stay for ever. Waves of 12 s with a plateau of 7 s.
//
// Should pay: requests and sessions have different callers, and sessions are scattered among them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server.h"

std::string noise;

std::string text(Rng& rng, uint32_t lo, uint32_t hi) {
  const uint32_t n = rng.range(lo, hi);
  return noise.substr(rng.below(uint32_t(noise.size()) - hi), n);
}

struct View {
  std::string tag, body;
  std::vector<std::unique_ptr<View>> children;
};

uint64_t hash(const View& view) {
  uint64_t h = mix(mix(7, view.tag), view.body);
  for (auto& child : view.children) h = mix(h, hash(*child));
  return h;
}

struct Request {
  std::string path, user;
  std::map<std::string, std::string> headers;
  std::vector<std::pair<std::string, std::string>> parameters;
  std::unique_ptr<View> page;
  std::string answer;
  uint64_t sum = 0;

  uint64_t verify() const {
    uint64_t h = mix(mix(1, path), user);
    for (auto& [name, value] : headers) h = mix(mix(h, name), value);
    for (auto& [name, value] : parameters) h = mix(mix(h, name), value);
    h = mix(h, answer);
    return page ? mix(h, hash(*page)) : h;
  }
};

void write(const View& view, std::string& out) {
  ((out += '<') += view.tag) += '>';
  for (char c : view.body) {
    if (c == 'q')
      out += "&quot;";
    else
      out.push_back(c);
  }
  for (auto& child : view.children) write(*child, out);
  out += "</>";
}

struct Session {
  std::string token;
  std::unordered_map<std::string, std::string> attributes;
  std::vector<std::string> history;
  uint32_t visits = 0;
  uint64_t sum = 0;
  uint64_t verify() const {
    uint64_t h = mix(3, token);
    for (auto& [name, value] : attributes) h += mix(mix(5, name), value);
    return h;
  }
};

struct SessionStore {
  std::unordered_map<std::string, std::unique_ptr<Session>> by_user;
  std::vector<std::string> users;  // a ring: the oldest session is replaced
  size_t limit, next = 0;
  uint64_t expired = 0;

  void login(Rng& rng, uint32_t id) {
    auto session = std::make_unique<Session>();
    session->token = text(rng, 40, 64);
    for (int n = int(rng.range(6, 11)); n > 0; --n)
      session->attributes["preference." + std::to_string(n * 37 % 101)] = text(rng, 16, 120);
    session->sum = session->verify();
    std::string user = "user-" + std::to_string(id) + "@example.org";
    if (users.size() < limit) {
      users.push_back(user);
    } else {
      auto old = by_user.find(users[next]);
      if (old->second->verify() != old->second->sum) corrupt("session");
      by_user.erase(old);
      ++expired;
      users[next] = user;
      next = (next + 1) % limit;
    }
    by_user.emplace(std::move(user), std::move(session));
  }
  Session* visit(const std::string& user, const std::string& path) {
    auto it = by_user.find(user);
    if (it == by_user.end()) return nullptr;
    Session& session = *it->second;
    session.history.push_back(path + "#" + std::to_string(++session.visits));
    if (session.history.size() > 10) session.history.erase(session.history.begin());
    return &session;
  }
};

struct Front {
  SessionStore sessions;
  std::map<std::string, uint64_t> hits;  // by path
  const char* names[10] = {
      "host",          "accept", "user-agent",      "cookie",  "accept-language",
      "cache-control", "origin", "x-forwarded-for", "referer", "if-none-match"};

  void render(Rng& rng, View& view, int depth) {
    view.tag = depth > 1 ? "section.content-of-page" : "li";
    view.body = text(rng, 12, 90);
    if (depth == 0) return;
    for (int n = int(rng.range(2, 4)); n > 0; --n) {
      view.children.push_back(std::make_unique<View>());
      render(rng, *view.children.back(), depth - 1);
    }
  }
  std::unique_ptr<Request> serve(Rng& rng) {
    auto request = std::make_unique<Request>();
    request->path = "/shop/" + std::to_string(rng.below(60)) + "/item/" +
                    std::to_string(uint32_t(rng.unit() * rng.unit() * 900));
    for (const char* name : names) request->headers.emplace(name, text(rng, 10, 110));
    for (int n = int(rng.range(1, 5)); n > 0; --n)
      request->parameters.emplace_back("parameter-number-" + std::to_string(n), text(rng, 4, 40));
    if (rng.chance(0.35) && !sessions.users.empty()) {
      request->user = sessions.users[rng.below(uint32_t(sessions.users.size()))];
      if (Session* session = sessions.visit(request->user, request->path))
        request->headers["x-session-token"] = session->token;
    }
    ++hits[request->path];
    request->page = std::make_unique<View>();
    render(rng, *request->page, 3);
    write(*request->page, request->answer);
    request->sum = request->verify();
    return request;
  }
};

double load(double t, const Args& args) {
  const double within = std::fmod(t, 12);
  const double size = args.wave_size(uint64_t(t / 12), 0.8, 0.2);
  if (within < 0.6) return size * within / 0.6;
  if (within < 7.5) return size;
  return within < 8.3 ? size * (8.3 - within) / 0.8 + 0.05 : 0.05;
}

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  for (int i = 0; i < 200000; ++i) noise += char('a' + rng.below(26));
  Front front;
  front.sessions.limit = args.count(16000);
  uint32_t id = 0;
  for (uint32_t n = args.count(9000); n > 0; --n) front.sessions.login(rng, id++);
  constexpr double kTick = 0.025;
  const int ticks = int(args.seconds / kTick);
  std::vector<std::vector<std::unique_ptr<Request>>> wheel(ticks + 1);
  uint64_t ops = 0, check = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    for (auto& request : wheel[tick]) {
      if (request->verify() != request->sum) corrupt("request");
      check = mix(check, request->sum);
      ++ops;
    }
    std::vector<std::unique_ptr<Request>>().swap(wheel[tick]);
    const double now = load(tick * kTick, args);
    for (uint32_t n = args.count(400 * now); n > 0; --n) {
      auto request = front.serve(rng);
      const int until = tick + (rng.chance(0.004) ? 150 : 8 + int(rng.below(104)));
      wheel[std::min(until, ticks)].push_back(std::move(request));  // at the end, all go at once
    }
    for (uint32_t n = args.count(13 * now); n > 0; --n, ++ops) front.sessions.login(rng, id++);
  }
  wheel.clear();
  for (auto& user : front.sessions.users) {
    auto& session = *front.sessions.by_user.at(user);
    if (session.verify() != session.sum) corrupt("session at the end");
    check = mix(mix(check, session.sum), session.visits);
  }
  for (auto& [path, count] : front.hits) check = mix(mix(check, path), count);
  finish("webfront", ops, mix(check, front.sessions.expired), pace);
  return 0;
}
