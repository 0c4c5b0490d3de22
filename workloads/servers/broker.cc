// SPDX-License-Identifier: Apache-2.0
// A message broker with two threads: one takes messages from eight feeds, the other delivers them.
// A message is made by make_shared and shared by up to three subscribers; it dies when the last of
// them has acknowledged it, after 0.1 to 2.7 s. Load comes in waves of 5 s. But in each hour (of 10
// s) the subscriber of one feed is away: all its messages stay in a backlog until the hour after
// the next one has begun, when he fetches them, or are dropped when 60,000 newer ones have come.
//
// Should not pay: each feed has a call site of its own (a template), which is short-lived for some
// hours, long-lived in one, and then short-lived again. All frees are made by the other thread.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server.h"

constexpr int kFeeds = 8;
constexpr double kTick = 0.02;
constexpr int kHour = 500, kWave = 250;  // ticks

struct Message {
  int feed;
  uint64_t id, sum;
  std::string topic, payload;
  std::vector<std::pair<std::string, std::string>> headers;
  uint64_t verify() const {
    uint64_t h = mix(mix(uint64_t(feed) ^ id, topic), payload);
    for (auto& [name, value] : headers) h = mix(mix(h, name), value);
    return h;
  }
};
using Shared = std::shared_ptr<const Message>;

struct Batch {
  int tick;
  int away;  // the feed whose subscriber is away
  std::vector<Shared> messages;
};
struct Channel {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<std::unique_ptr<Batch>> batches;
  void push(std::unique_ptr<Batch> batch) {
    {
      std::lock_guard lock(mutex);
      batches.push_back(std::move(batch));
    }
    filled.notify_one();
  }
  std::unique_ptr<Batch> pop() {
    std::unique_lock lock(mutex);
    filled.wait(lock, [&] { return !batches.empty(); });
    auto batch = std::move(batches.front());
    batches.pop_front();
    return batch;
  }
};

std::string noise;

template <int Feed>
[[gnu::noinline]] Shared publish(Rng& rng, uint64_t id) {
  auto message = std::make_shared<Message>();
  message->feed = Feed;
  message->id = id;
  message->topic = "feed-" + std::to_string(Feed) + "/device/" + std::to_string(rng.below(5000));
  message->payload = noise.substr(rng.below(40000), 60 + Feed * 25 + rng.below(200));
  for (int n = int(rng.range(1, 3)); n > 0; --n)
    message->headers.emplace_back("header.number." + std::to_string(n + Feed),
                                  noise.substr(rng.below(40000), rng.range(16, 60)));
  message->sum = message->verify();
  return message;
}
using Publisher = Shared (*)(Rng&, uint64_t);
const Publisher publishers[kFeeds] = {publish<0>, publish<1>, publish<2>, publish<3>,
                                      publish<4>, publish<5>, publish<6>, publish<7>};

struct Delivery {
  Rng rng;
  size_t longest;
  std::vector<std::vector<Shared>> due;  // by tick; up to three subscribers hold one message
  std::map<int, std::deque<Shared>> backlog;
  std::map<std::string, uint64_t> delivered;  // by topic
  uint64_t check = 0, ops = 0, dropped = 0;

  void acknowledge(const Shared& message) {
    if (message->verify() != message->sum) corrupt("message");
    if (message.use_count() == 1) check += message->sum, ++delivered[message->topic];  // the last
    ++ops;
  }
  void run(Channel& channel, int ticks) {
    due.resize(size_t(ticks) + 1);
    for (;;) {
      auto batch = channel.pop();
      if (batch->tick == ticks) break;
      for (auto& message : due[size_t(batch->tick)]) {
        acknowledge(message);
        message.reset();
      }
      std::vector<Shared>().swap(due[size_t(batch->tick)]);
      for (auto& message : batch->messages) {
        const int subscribers = int(rng.range(1, 3));
        if (message->feed == batch->away) {
          auto& queue = backlog[message->feed];
          queue.push_back(message);
          if (queue.size() > longest) queue.pop_front(), ++dropped;
        }
        for (int n = subscribers; n > 0; --n) {
          const int until = std::min(ticks, batch->tick + 5 + int(rng.below(130)));
          due[size_t(until)].push_back(message);
        }
        message.reset();
      }
      // Whoever was away two hours ago fetches a part of what waits for him.
      const int back = (batch->away + 2 * kFeeds - 2 * 3) % kFeeds;  // feeds go away in steps of 3
      auto& queue = backlog[back];
      for (size_t n = std::min(queue.size(), longest / 60 + 1); n > 0; --n) {
        acknowledge(queue.front());
        queue.pop_front();
      }
    }
    due.clear();
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  for (int i = 0; i < 50000; ++i) noise += char('!' + rng.below(90));
  const int ticks = int(args.seconds / kTick);
  Channel channel;
  Delivery delivery{Rng(args.seed + 5), args.count(60000), {}, {}, {}};
  std::thread consumer([&] { delivery.run(channel, ticks); });
  uint64_t id = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    const int within = tick % kWave, hour = tick / kHour;
    const double size = args.wave_size(tick / kWave, 0.7, 0.3);
    auto batch = std::make_unique<Batch>();
    batch->tick = tick;
    batch->away = int((uint64_t(hour) * 3 + args.seed) % kFeeds);
    for (uint32_t n = args.count(within < 140 ? 3000 * size : 90); n > 0; --n) {
      const int feed = int(rng.below(kFeeds));
      batch->messages.push_back(publishers[feed](rng, ++id));
    }
    channel.push(std::move(batch));
  }
  auto last = std::make_unique<Batch>();
  last->tick = ticks;
  channel.push(std::move(last));
  consumer.join();
  uint64_t check = delivery.check, waiting = 0;
  for (auto& [feed, queue] : delivery.backlog)
    for (auto& message : queue) {
      if (message->verify() != message->sum) corrupt("message of the backlog");
      check += message->sum, ++waiting;
    }
  for (auto& [topic, count] : delivery.delivered) check = mix(mix(check, topic), count);
  finish("broker", id + delivery.ops, mix(check, waiting + delivery.dropped), pace);
  return 0;
}
