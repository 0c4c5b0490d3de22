// SPDX-License-Identifier: Apache-2.0
// A chat server with buffers that grow by realloc. Every 8 s a storm of clients connects, talks and
// disconnects; one in ten stays until the next storm. What is said in a room may be copied into its
// history, a long ring. C style: all memory comes from three wrappers of malloc and realloc.
//
// Why it is hard: the same wrapper makes messages that stay and names that go. Who stays is known
// only when the storm ends. Buffers of the few that stay, and the history, go on growing in the
// trough.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "server.h"

void* xmalloc(size_t n) {
  void* p = malloc(n);
  if (!p) abort();
  return p;
}
void* xrealloc(void* p, size_t n) {
  p = realloc(p, n);
  if (!p) abort();
  return p;
}

struct Buffer {
  char* data = nullptr;
  uint32_t used = 0, size = 0;
  uint64_t sum = 1;
  void add(const char* p, uint32_t n, bool sparing) {
    if (used + n > size) {
      uint32_t want = size ? size : 256;
      while (want < used + n) want = sparing ? want + want / 2 : want * 2;
      data = static_cast<char*>(xrealloc(data, want));
      size = want;
    }
    memcpy(data + used, p, n);
    sum = mix(sum, (uint64_t(n) << 32 | used) ^ uint8_t(p[n / 2]));
    used += n;
  }
  void consume() { used = 0, sum = 1; }
  void shrink() {
    if (used && used < size / 2) data = static_cast<char*>(xrealloc(data, size = used));
  }
  void drop() {
    free(data);
    *this = Buffer();
  }
};
struct Connection {
  Buffer in, out;
  char* name;
  char** subscriptions;
  uint32_t rooms, id, room[6], messages;
  double appetite;
  uint64_t bytes_sum;
};
struct Message {
  char* text;
  uint32_t length;
  uint64_t sum;
};

std::string noise;

char* copy(const char* p, size_t n) {
  char* out = static_cast<char*>(xmalloc(n + 1));
  memcpy(out, p, n);
  out[n] = 0;
  return out;
}

struct Server {
  std::vector<std::deque<Message>> history;
  size_t longest;
  uint64_t ops = 0, check = 0;

  Connection* open(Rng& rng, uint32_t id) {
    auto* c = static_cast<Connection*>(xmalloc(sizeof(Connection)));
    new (c) Connection();
    char name[64];
    c->name = copy(name, size_t(snprintf(name, sizeof name, "guest-%u-%llx", id,
                                         (unsigned long long)rng.next() % 0xffff)));
    c->id = id;
    c->rooms = rng.range(1, 6);
    c->subscriptions = static_cast<char**>(xmalloc(c->rooms * sizeof(char*)));
    for (uint32_t i = 0; i < c->rooms; ++i) {
      c->room[i] = rng.below(history.size());
      char room[48];
      c->subscriptions[i] =
          copy(room, size_t(snprintf(room, sizeof room, "#room-number-%u", c->room[i])));
    }
    c->appetite = std::min(8.0, 0.6 * std::pow(1 - rng.unit(), -1 / 1.5));
    ++ops;
    return c;
  }
  void say(Rng& rng, Connection* c) {
    const uint32_t length = 30 + rng.below(rng.chance(0.1) ? 1500 : 220),
                   from = rng.below(noise.size() - 2000);
    const char* text = noise.data() + from;
    c->in.add(text, length, false);
    for (int n = int(c->appetite * 4); n >= 0; --n)
      c->out.add(text, 100 + (length * 3 + n * 17) % 260, true);
    c->bytes_sum = mix(c->bytes_sum, mix_bytes(1, text, std::min(length, 64u)));
    if (++c->messages % 12 == 0) c->in.consume();
    if (rng.chance(0.22)) {
      auto& room = history[c->room[rng.below(c->rooms)]];
      room.push_back({copy(text, length), length, mix_bytes(2, text, length)});
      if (room.size() > longest) {
        forget(room.front());
        room.pop_front();
      }
    }
    ++ops;
  }
  void forget(Message& message) {
    if (mix_bytes(2, message.text, message.length) != message.sum || message.text[message.length])
      corrupt("history");
    free(message.text);
  }
  void close(Connection* c) {
    uint64_t sum = 1;
    if (c->in.used && c->in.data[0] == 0) corrupt("input");
    for (uint32_t i = 0; i < c->out.used; i += 512) sum = mix(sum, uint8_t(c->out.data[i]));
    if (strncmp(c->name, "guest-", 6) || uint32_t(atoi(c->name + 6)) != c->id) corrupt("name");
    check += mix(sum, c->bytes_sum ^ c->out.sum);
    for (uint32_t i = 0; i < c->rooms; ++i) free(c->subscriptions[i]);
    free(c->subscriptions);
    free(c->name);
    c->in.drop();
    c->out.drop();
    free(c);
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  for (int i = 0; i < 100000; ++i) noise += char('!' + rng.below(90));
  Server server;
  server.history.resize(args.count(500));
  server.longest = 700;
  std::vector<Connection*> present, idle;
  constexpr double kTick = 0.02;
  constexpr int kPeriod = 400;
  const int ticks = int(args.seconds / kTick);
  uint32_t id = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    const int within = tick % kPeriod, storm = tick / kPeriod;
    const double size = args.wave_size(storm, 0.75, 0.25);
    if (within < 75) {  // connect
      for (uint32_t n = args.count(160 * size); n > 0; --n)
        present.push_back(server.open(rng, id++));
    }
    if (within < 200) {  // talk
      for (uint32_t n = present.empty() ? 0 : args.count(1400 * size); n > 0; --n)
        server.say(rng, present[rng.below(present.size())]);
    } else if (within == 200) {  // old guests leave, new ones stay on
      for (Connection* c : idle) server.close(c);
      idle.clear();
      for (size_t i = 0; i < present.size();) {
        if (mix(present[i]->id, 5) % 10 == 0) {
          present[i]->out.shrink();
          idle.push_back(present[i]);
          present[i] = present.back();
          present.pop_back();
        } else {
          ++i;
        }
      }
    } else if (within <= 250) {  // disconnect
      for (uint32_t n = uint32_t(present.size() / (251 - within)); n > 0; --n) {
        const uint32_t i = rng.below(present.size());
        server.close(present[i]);
        present[i] = present.back();
        present.pop_back();
      }
    }
    // The few who are idle say something now and then: their buffers and the history grow in the
    // trough.
    if (!idle.empty())
      for (uint32_t n = args.count(6); n > 0; --n) server.say(rng, idle[rng.below(idle.size())]);
  }
  for (Connection* c : present) server.close(c);
  uint64_t check = server.check;
  for (auto& room : server.history)
    for (Message& message : room) {
      if (mix_bytes(2, message.text, message.length) != message.sum) corrupt("history at the end");
      check += message.sum;
    }
  finish("chat", server.ops, check, pace);
  for (Connection* c : idle) server.close(c);
  return 0;  // the history is left to the kernel
}
