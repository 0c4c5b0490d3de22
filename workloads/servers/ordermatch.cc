// SPDX-License-Identifier: Apache-2.0
// An exchange. Its order books are maps of price levels with intrusive lists of orders. An order
// lives until it is filled or expires: Pareto from 60 ms, one in thirty for the whole run. Waves
// come every 2 s, with a lull of three waves. Execution reports go within ticks, drop copies of
// trades at the end of each second wave.
//
// Why it is hard: one `new Order` makes all kinds of orders, and orders that come later decide when
// it dies. Lifetimes have a long tail and no typical length, and the waves are short.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server.h"

struct Level;
struct Order {
  Order *prev = nullptr, *next = nullptr;
  Level* level = nullptr;
  uint64_t id = 0, sum = 0;
  int32_t price = 0;
  uint32_t quantity = 0;
  uint16_t symbol = 0;
  bool buy = false;
  std::string raw, client;
  std::vector<uint32_t> fills;
};
struct Level {
  int32_t price = 0;
  uint64_t quantity = 0;
  Order head;  // of the ring
  Level() { head.prev = head.next = &head; }
  Level(const Level&) = delete;
  void push(Order* order) {
    order->prev = head.prev, order->next = &head, order->level = this;
    head.prev->next = order, head.prev = order;
    quantity += order->quantity;
  }
  bool empty() const { return head.next == &head; }
};
using Side = std::map<int32_t, Level>;
struct Book {
  Side bids, asks;
};
struct Trade {
  uint64_t buyer, seller;
  std::string text;
  uint64_t sum;
};

struct Exchange {
  std::vector<Book> books{24};
  std::unordered_map<uint64_t, Order*> orders;
  std::list<Trade> drop_copies;
  std::vector<std::vector<std::string>> outbound{4};
  std::vector<std::vector<uint64_t>> expiries;
  uint64_t next_id = 1, trades = 0, check = 0;
  uint64_t tick = 0;

  static std::string fix(uint64_t id, uint32_t length) {
    std::string out = "8=FIX.4.4|35=D|11=" + std::to_string(id) + "|";
    out.append(length, char('0' + id % 10));
    return out;
  }
  void report(uint64_t id, const char* what) {
    std::string out = "35=8|37=" + std::to_string(id) + "|150=";
    out += what;
    out.append(40 + id % 90, '.');
    outbound[tick % 4].push_back(std::move(out));
  }
  void remove(Order* order) {
    if (mix(order->id, order->raw) != order->sum) corrupt("order");
    Level* level = order->level;
    order->prev->next = order->next, order->next->prev = order->prev;
    level->quantity -= order->quantity;
    Book& book = books[order->symbol];
    if (level->empty()) (order->buy ? book.bids : book.asks).erase(level->price);
    orders.erase(order->id);
    delete order;
  }
  Order* create(uint16_t symbol, bool buy, int32_t price, uint32_t quantity, uint32_t length) {
    Order* order = new Order;
    order->id = next_id++;
    order->symbol = symbol, order->buy = buy, order->price = price, order->quantity = quantity;
    order->raw = fix(order->id, length);
    order->client = "client-" + std::to_string(order->id * 7919 % 90000) + "-desk";
    order->sum = mix(order->id, order->raw);
    return order;
  }
  void fill(Order* a, Order* b, uint32_t quantity) {
    ++trades;
    for (Order* order : {a, b}) order->fills.push_back(quantity), report(order->id, "F");
    std::string text = a->raw.substr(0, 60) + b->raw.substr(0, 600 + b->id % 700) +
                       "|31=" + std::to_string(a->price);
    const uint64_t sum = mix(a->id, text);
    drop_copies.push_back({a->id, b->id, std::move(text), sum});
    check = mix(check, a->id ^ b->id << 20 ^ quantity);
  }
  void submit(Order* order, uint32_t life) {
    Book& book = books[order->symbol];
    Side& other = order->buy ? book.asks : book.bids;
    while (order->quantity && !other.empty()) {
      auto best = order->buy ? other.begin() : std::prev(other.end());
      if (order->buy ? best->first > order->price : best->first < order->price) break;
      Order* resting = best->second.head.next;
      const uint32_t quantity = std::min(order->quantity, resting->quantity);
      fill(order, resting, quantity);
      order->quantity -= quantity, resting->quantity -= quantity, best->second.quantity -= quantity;
      if (!resting->quantity) remove(resting);
    }
    report(order->id, "0");
    if (!order->quantity) {
      delete order;
      return;
    }
    Level& level = (order->buy ? book.bids : book.asks)[order->price];
    level.price = order->price;
    level.push(order);
    orders.emplace(order->id, order);
    if (tick + life < expiries.size()) expiries[tick + life].push_back(order->id);
  }
  void expire() {
    for (uint64_t id : expiries[tick])
      if (auto it = orders.find(id); it != orders.end()) report(id, "4"), remove(it->second);
    std::vector<uint64_t>().swap(expiries[tick]);
    outbound[(tick + 1) % 4].clear();
    if (tick % 32 == 0) outbound[(tick + 1) % 4].shrink_to_fit();
  }
  void acknowledge() {
    for (Trade& trade : drop_copies)
      if (mix(trade.buyer, trade.text) != trade.sum) corrupt("drop copy");
    drop_copies.clear();
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  Exchange exchange;
  constexpr double kTick = 0.01;
  constexpr int kPeriod = 200;
  const int ticks = int(args.seconds / kTick), lull = 6 + int(args.seed % 3);
  exchange.expiries.resize(ticks + 1);
  uint64_t ops = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    exchange.tick = tick;
    exchange.expire();
    const int wave = tick / kPeriod, within = tick % kPeriod;
    if (within == 130 && wave % 2) exchange.acknowledge();
    const bool quiet = (wave >= lull && wave < lull + 3) || within >= 100;
    const double swell = std::sin(3.14159 * (within + 1) / 102) * args.wave_size(wave, 0.7, 0.3, 5);
    for (uint32_t n = args.count(quiet ? 60 : 2500 * swell); n > 0; --n, ++ops) {
      const uint16_t symbol = uint16_t(rng.below(24));
      const bool buy = rng.chance(0.5);
      const int32_t middle = 10000 + int32_t(8 * std::sin((tick + symbol * 50) / 300.0));
      const bool taker = rng.chance(0.28);
      const int32_t away =
          taker ? -int32_t(rng.below(6)) : 1 + int32_t(rng.below(300) * rng.unit());
      Order* order = exchange.create(symbol, buy, buy ? middle - away : middle + away,
                                     rng.range(1, taker ? 300 : 200), 700 + rng.below(1800));
      const double life = 6.0 * std::pow(1 - rng.unit(), -1 / 0.5);  // ticks
      exchange.submit(order, taker ? 1 + rng.below(8) : life > 1e6 ? 1000000 : uint32_t(life));
    }
  }
  exchange.acknowledge();
  exchange.outbound.clear();
  for (auto& [id, order] : exchange.orders)
    if (mix(id, order->raw) != order->sum) corrupt("resting order");
  finish("ordermatch", ops + exchange.trades, mix(exchange.check, exchange.orders.size()), pace);
  return 0;
}
