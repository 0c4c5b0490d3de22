// SPDX-License-Identifier: Apache-2.0
// A game server. Matches begin in spikes, every 6 s, and last about 2.4 s. All that is in a match
// is made by virtual factories: units stay to its end, projectiles die in flight, its replay is a
// list of events. The world outside stays: entities of regions, and what players win in a match,
// which goes into their bags while the match runs. A full bag sells its oldest item.
//
// Should pay: what is won is made by the world's factory, what is in a match by the match's; the
// bytes of both are of the same sizes. But it is not the call that tells them apart for names and
// vectors: these come from constructors that both use.
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "server.h"

struct Thing {
  uint32_t id;
  std::string name;
  explicit Thing(uint32_t i) : id(i), name("thing of the world #" + std::to_string(i)) {}
  virtual ~Thing() = default;
  virtual bool step(uint32_t) { return true; }  // false: it ends
  virtual uint64_t sum() const {
    if (name.compare(20, std::string::npos, std::to_string(id)) != 0) corrupt("name");
    return mix(id, name.size());
  }
};
struct Unit : Thing {
  std::vector<uint32_t> path;
  double x = 0, y = 0, health = 100, speed;
  uint32_t target = 0, orders[6] = {};
  Unit(uint32_t i, Rng& rng) : Thing(i), speed(rng.unit()) {
    for (int n = int(rng.range(4, 20)); n > 0; --n) path.push_back(i ^ uint32_t(n));
  }
  bool step(uint32_t now) override {
    x += speed, y -= speed, target = path[now % path.size()];
    return true;
  }
  uint64_t sum() const override { return mix(Thing::sum(), path.back()); }
};
struct Projectile : Thing {
  double x = 0, dx;
  uint32_t fuel;
  Projectile(uint32_t i, Rng& rng) : Thing(i), dx(rng.unit()), fuel(rng.range(2, 12)) {}
  bool step(uint32_t) override { return x += dx, --fuel > 0; }
};
struct Effect : Thing {
  uint32_t colour[8];
  std::list<uint32_t> affected;
  Effect(uint32_t i, Rng& rng) : Thing(i) {
    for (auto& c : colour) c = i;
    for (int n = int(rng.below(6)); n > 0; --n) affected.push_back(i);
  }
  uint64_t sum() const override { return mix(Thing::sum(), colour[5] + affected.size()); }
};
struct Item : Thing {  // of a player
  std::vector<std::pair<uint32_t, uint32_t>> enchantments;
  std::unique_ptr<std::string> inscription;
  Item(uint32_t i, Rng& rng) : Thing(i) {
    for (int n = int(rng.range(1, 4)); n > 0; --n) enchantments.emplace_back(i, n);
    if (rng.chance(0.4))
      inscription = std::make_unique<std::string>(rng.range(20, 70), char('a' + i % 26));
  }
  uint64_t sum() const override {
    return mix(Thing::sum(), (inscription ? inscription->size() : 0) + enchantments[0].first);
  }
};

struct Factory {
  virtual ~Factory() = default;
  virtual std::unique_ptr<Thing> make(uint32_t id, Rng& rng) const = 0;
};
template <class T>
struct FactoryOf : Factory {
  std::unique_ptr<Thing> make(uint32_t id, Rng& rng) const override {
    return std::make_unique<T>(id, rng);
  }
};
struct Registry {  // by name, as scripts would ask
  std::map<std::string, std::unique_ptr<Factory>> factories;
  const Factory& get(const std::string& name) const { return *factories.at(name); }
};

struct Player {
  std::string name;
  std::deque<std::unique_ptr<Thing>> bag;
};
struct World {
  Registry registry;
  std::vector<Player> players;
  std::vector<std::unique_ptr<Thing>> entities;
  uint32_t id = 0;
  uint64_t check = 0;
  void award(Rng& rng) {
    Player& player = players[rng.below(uint32_t(players.size()))];
    player.bag.push_back(registry.get("item").make(++id, rng));
    if (player.bag.size() > 18) {
      check += player.bag.front()->sum();
      player.bag.pop_front();
    }
  }
};
struct Event {
  uint32_t at, kind;
  double where[2];
  uint64_t actor, sum;
  std::string note;
};
struct Match {
  std::vector<std::unique_ptr<Thing>> things, flying;
  std::list<Event> replay;
  uint32_t began, length, intensity;

  void step(World& world, Rng& rng, uint32_t tick) {
    const Factory &unit = world.registry.get("unit"), &shot = world.registry.get("projectile"),
                  &effect = world.registry.get("effect");
    for (uint32_t n = intensity; n > 0; --n) things.push_back(unit.make(++world.id, rng));
    for (uint32_t n = intensity; n > 0; --n) things.push_back(effect.make(++world.id, rng));
    for (uint32_t n = intensity * 2; n > 0; --n) flying.push_back(shot.make(++world.id, rng));
    for (size_t i = 0; i < flying.size();)
      if (!flying[i]->step(tick)) {
        std::swap(flying[i], flying.back());
        flying.pop_back();
      } else {
        ++i;
      }
    for (size_t i = tick % 3; i < things.size(); i += 3) things[i]->step(tick);
    for (uint32_t n = intensity * 3; n > 0; --n) {
      Event event{tick, n, {1.0, 2.0}, world.id, 0, {}};
      if (rng.chance(0.3)) event.note.assign(rng.range(16, 60), 'n');
      event.sum = mix(event.actor, event.note.size());
      replay.push_back(std::move(event));
    }
    for (int n = 0; n < 2; ++n) search(rng);
  }
  void search(Rng& rng) {  // the way of a unit: a frontier that is gone afterwards
    std::priority_queue<std::pair<uint32_t, uint32_t>> frontier;
    std::map<uint32_t, uint32_t> seen;
    frontier.emplace(1000, rng.below(4096));
    for (int n = 0; n < 45 && !frontier.empty(); ++n) {
      auto [cost, at] = frontier.top();
      frontier.pop();
      if (!seen.emplace(at, cost).second) continue;
      for (uint32_t next : {at + 1, at - 1, at + 64}) frontier.emplace(cost - rng.below(9), next);
    }
  }
  uint64_t end() const {
    uint64_t h = 0;
    for (auto& thing : things) h += thing->sum();
    for (auto& event : replay) {
      if (event.sum != mix(event.actor, event.note.size())) corrupt("event");
      h += event.sum;
    }
    return h;
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  World world;
  world.registry.factories["unit"] = std::make_unique<FactoryOf<Unit>>();
  world.registry.factories["effect"] = std::make_unique<FactoryOf<Effect>>();
  world.registry.factories["projectile"] = std::make_unique<FactoryOf<Projectile>>();
  world.registry.factories["item"] = std::make_unique<FactoryOf<Item>>();
  world.players = std::vector<Player>(args.count(11000));
  for (auto& player : world.players)
    player.name = "player of the realm " + std::to_string(++world.id);
  for (uint32_t n = args.count(25000); n > 0; --n)
    world.entities.push_back(world.registry.get("unit").make(++world.id, rng));
  for (uint32_t n = args.count(80000); n > 0; --n) world.award(rng);
  constexpr double kTick = 0.05;
  constexpr uint32_t kPeriod = 120;  // ticks
  const uint32_t ticks = uint32_t(args.seconds / kTick);
  std::list<Match> running;
  uint64_t ops = 0;
  for (uint32_t tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    const uint32_t within = tick % kPeriod, wave = tick / kPeriod;
    const double size = args.wave_size(wave, 0.75, 0.25);
    const double starts = within < 30 ? 36 * size : within % 10 == 0 ? 1 : 0;
    if (starts > 0)
      for (uint32_t n = args.count(starts); n > 0; --n)
        running.push_back(Match{{}, {}, {}, tick, rng.range(36, 60), rng.range(6, 14)});
    for (auto match = running.begin(); match != running.end();) {
      if (tick - match->began >= match->length) {
        world.check += match->end();
        match = running.erase(match);
        continue;
      }
      match->step(world, rng, tick);
      if (rng.chance(0.75)) world.award(rng);
      if (rng.chance(0.75)) world.award(rng);
      ++ops, ++match;
    }
    for (size_t i = tick % 20; i < world.entities.size(); i += 20) world.entities[i]->step(tick);
  }
  running.clear();
  for (auto& player : world.players)
    for (auto& item : player.bag) world.check += item->sum();
  for (auto& entity : world.entities) world.check += entity->sum();
  finish("gameworld", ops, mix(world.check, world.id), pace);
  return 0;
}
