// SPDX-License-Identifier: Apache-2.0
// Units of work load entities through virtual factories and std::function into graphs of
// shared_ptr. Waves come every 4 s, two of them are left out. A unit publishes a few of its
// entities to the identity map, where they stay. Reference data comes from the same factories and
// stays, too.
//
// Why it is hard: an entity's content decides whether it stays, after it was made. So each call
// site makes both kinds. Most troughs last two seconds, and two are longer, where a wave is left
// out.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server.h"

struct Entity {
  uint64_t id;
  std::vector<std::shared_ptr<Entity>> refs;
  explicit Entity(uint64_t i) : id(i) {}
  virtual ~Entity() = default;
  virtual uint64_t sum() const = 0;
};
std::string text(uint64_t id, size_t n) {
  std::string out = std::to_string(id);
  while (out.size() < n)
    out += char('a' + (id = id * 6364136223846793005ull + 1442695040888963407ull) % 26);
  return out;
}
struct Tag : Entity {
  char label[24];
  explicit Tag(uint64_t i) : Entity(i) {
    snprintf(label, sizeof label, "tag-%llx", (unsigned long long)i % 0xffffff);
  }
  uint64_t sum() const override { return mix_bytes(id, label, strlen(label)); }
};
struct Item : Entity {
  std::string sku, description;
  double price;
  explicit Item(uint64_t i)
      : Entity(i),
        sku(text(i, 18)),
        description(text(i + 1, 40 + i % 150)),
        price(double(i % 9999)) {}
  uint64_t sum() const override { return mix(mix(id, sku), description); }
};
struct Order : Entity {
  std::vector<uint32_t> quantities;
  std::string note;
  explicit Order(uint64_t i)
      : Entity(i), quantities(2 + i % 14, uint32_t(i)), note(text(i, i % 3 ? 8 : 90)) {}
  uint64_t sum() const override {
    return mix(mix(id, note), quantities.size() * uint64_t(quantities.back()));
  }
};
struct User : Entity {
  std::string name, mail;
  std::unordered_map<std::string, std::string> settings;
  explicit User(uint64_t i)
      : Entity(i), name(text(i, 12 + i % 12)), mail(text(i, 24) + "@example.org") {
    for (uint64_t k = 0; k < i % 4; ++k) settings.emplace(text(k, 17), text(i + k, 20));
  }
  uint64_t sum() const override { return mix(mix(id, name), mail) + settings.size(); }
};

struct Factory {
  virtual ~Factory() = default;
  virtual std::shared_ptr<Entity> make(uint64_t id) = 0;
};
template <class T>
struct Shared : Factory {
  std::shared_ptr<Entity> make(uint64_t id) override { return std::make_shared<T>(id); }
};
template <class T>
struct Separate : Factory {  // control block apart from the object
  std::shared_ptr<Entity> make(uint64_t id) override { return std::shared_ptr<Entity>(new T(id)); }
};

using Loader = std::function<std::shared_ptr<Entity>(uint64_t)>;
using Map = std::unordered_map<uint64_t, std::shared_ptr<Entity>>;
struct Registry {
  std::vector<std::unique_ptr<Factory>> factories;
  std::vector<Loader> loaders;
  template <class F>
  void add() {
    factories.push_back(std::make_unique<F>());
    loaders.push_back([factory = factories.back().get(), this](uint64_t id) {
      ++made;
      return factory->make(id);
    });
  }
  uint64_t made = 0;
};
Registry registry;
Map identity;  // stays
uint64_t check;

struct Unit {
  Map local;
  std::vector<std::shared_ptr<Entity>> roots;
  uint64_t sum = 0;
  std::shared_ptr<Entity> load(size_t kind, uint64_t id) {
    if (auto it = identity.find(id); it != identity.end()) return it->second;
    auto& slot = local[id];
    if (!slot) slot = registry.loaders[kind](id), sum += slot->sum();
    return slot;
  }
  void run(Rng& rng, uint32_t users) {
    for (uint32_t u = 0; u < users; ++u) {
      auto user = load(3, rng.next() >> 8 << 2 | 3);
      for (uint32_t o = rng.below(5); o > 0; --o) {
        auto order = load(2, rng.next() >> 8 << 2 | 2);
        for (uint32_t n = rng.range(1, 7); n > 0; --n) {
          auto item = load(1, rng.next() >> 8 << 2 | 1);
          for (uint32_t t = rng.below(3); t > 0; --t)
            item->refs.push_back(load(0, uint64_t(rng.below(60000)) << 2));
          order->refs.push_back(std::move(item));
        }
        user->refs.push_back(std::move(order));
      }
      roots.push_back(std::move(user));
    }
  }
  void commit() {
    uint64_t now = 0;
    for (auto& [id, entity] : local) now += entity->sum();
    if (now != sum) corrupt("unit of work");
    check += now;
    for (auto& [id, entity] : local)
      if ((id & 3) <= 1 && mix(id, 77) % 120 == 0)
        identity.emplace(id, entity);  // an item keeps its tags
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  registry.add<Shared<Tag>>();
  registry.add<Separate<Item>>();
  registry.add<Shared<Order>>();
  registry.add<Separate<User>>();
  for (uint32_t i = args.count(40000); i > 0; --i) {  // reference data
    const uint64_t id = rng.next() >> 8 << 2 | 1;
    identity.emplace(id, registry.loaders[1](id));
  }
  constexpr double kTick = 0.04;
  constexpr int kPeriod = 100, kBusy = 42;
  const int ticks = int(args.seconds / kTick);
  const int gap1 = 2 + int(args.seed % 2), gap2 = gap1 + 4;
  std::vector<std::vector<std::unique_ptr<Unit>>> wheel(ticks + 1);
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    for (auto& unit : wheel[tick]) unit->commit();
    std::vector<std::unique_ptr<Unit>>().swap(wheel[tick]);
    const int wave = tick / kPeriod, within = tick % kPeriod;
    const bool busy = within < kBusy && wave != gap1 && wave != gap2;
    for (uint32_t n = args.count(busy ? 20 : 0.4); n > 0; --n) {
      auto unit = std::make_unique<Unit>();
      unit->run(rng, rng.range(10, 140));
      // Most end with the wave; one in 30 is a report that lives twice as long.
      const int life = rng.chance(0.033) ? int(rng.range(50, 90)) : int(rng.range(5, 45));
      if (tick + life < ticks) wheel[tick + life].push_back(std::move(unit));
    }
    if (busy && within % 6 == 0)
      for (uint32_t i = args.count(60); i > 0; --i) {  // new reference data, by the direct way
        const uint64_t id = rng.next() >> 8 << 2 | 1;
        identity.emplace(id, registry.loaders[1](id));
      }
  }
  wheel.clear();
  for (auto& [id, entity] : identity) {
    if (entity->id != id) corrupt("identity map");
    check += entity->sum();
  }
  finish("orm", registry.made, check, pace);
}
