// SPDX-License-Identifier: Apache-2.0
// A JSON service. Requests come in bursts every 10 s. Each is parsed into a tree that lives until
// its answer is sent. Sessions come from the same recursive parser and stay; each tick replaces a
// few. One request in 200 leaves a part of its tree in the audit log.
//
// Why it is hard: one recursive parser makes what dies and what stays, at stacks of any depth. What
// the audit log keeps was born like all that dies, and is chosen when its request ends.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "server.h"

struct Array;
struct Object;
struct Value {
  std::variant<std::nullptr_t, bool, double, std::string, std::unique_ptr<Array>,
               std::unique_ptr<Object>>
      v;
  Value();
  Value(Value&&) noexcept;
  Value& operator=(Value&&) noexcept;
  ~Value();
};
struct Array {
  std::vector<Value> items;
};
struct Object {
  std::map<std::string, Value, std::less<>> members;
};
Value::Value() = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;

struct Parser {
  const char* p;
  void space() {
    while (*p == ' ' || *p == '\n') ++p;
  }
  void expect(char c) {
    space();
    if (*p++ != c) corrupt("JSON text");
  }
  std::string text() {
    expect('"');
    std::string out;
    while (*p != '"') {
      if (*p == '\\') ++p;
      out.push_back(*p++);
    }
    ++p;
    return out;
  }
  Value value() {
    Value out;
    space();
    if (*p == '{') {
      ++p;
      auto object = std::make_unique<Object>();
      space();
      while (*p != '}') {
        std::string key = text();
        expect(':');
        object->members.emplace(std::move(key), value());
        space();
        if (*p == ',') ++p, space();
      }
      ++p;
      out.v = std::move(object);
    } else if (*p == '[') {
      ++p;
      auto array = std::make_unique<Array>();
      space();
      while (*p != ']') {
        array->items.push_back(value());
        space();
        if (*p == ',') ++p, space();
      }
      ++p;
      out.v = std::move(array);
    } else if (*p == '"') {
      out.v = text();
    } else if (!strncmp(p, "true", 4)) {
      p += 4, out.v = true;
    } else if (!strncmp(p, "null", 4)) {
      p += 4;
    } else {
      char* end;
      out.v = strtod(p, &end);
      if (end == p) corrupt("JSON number");
      p = end;
    }
    return out;
  }
};

uint64_t hash(const Value& value) {
  if (auto* s = std::get_if<std::string>(&value.v)) return mix(3, *s);
  if (auto* d = std::get_if<double>(&value.v)) return mix(2, uint64_t(*d * 100));
  if (auto* b = std::get_if<bool>(&value.v)) return *b;
  uint64_t h = 5;
  if (auto* a = std::get_if<std::unique_ptr<Array>>(&value.v))
    for (auto& item : (*a)->items) h = mix(h, hash(item));
  if (auto* o = std::get_if<std::unique_ptr<Object>>(&value.v))
    for (auto& [key, member] : (*o)->members) h = mix(mix(h, key), hash(member));
  return h;
}

std::string word(Rng& rng, int lo, int hi) {
  std::string out;
  for (int n = int(rng.range(lo, hi)); n > 0; --n) out += char('a' + rng.below(26));
  return out;
}

void generate(Rng& rng, int depth, std::string& out) {
  if (depth == 0 || rng.chance(0.25)) {
    switch (rng.below(4)) {
      case 0:
        out += std::to_string(rng.below(100000));
        break;
      case 1:
        out += rng.chance(0.5) ? "true" : "null";
        break;
      default:
        out += '"' + word(rng, 4, 60) + '"';
    }
  } else if (rng.chance(0.6)) {
    out += '{';
    for (int i = 0, n = int(rng.range(2, 8)); i < n; ++i) {
      out += (i ? ",\"" : "\"") + word(rng, 3, 20) + "\": ";
      generate(rng, depth - 1, out);
    }
    out += '}';
  } else {
    out += '[';
    for (int i = 0, n = int(rng.range(1, 9)); i < n; ++i) {
      if (i) out += ", ";
      generate(rng, depth - 1, out);
    }
    out += ']';
  }
}

std::string document(Rng& rng, size_t at_least) {
  std::string out = "{\"items\": [";
  for (bool first = true; out.size() < at_least; first = false) {
    if (!first) out += ",";
    generate(rng, 4, out);
  }
  return out + "], \"kind\": \"" + word(rng, 5, 12) + "\"}";
}

struct Kept {
  Value dom;
  uint64_t sum;
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  std::vector<std::string> requests, logins;
  for (int i = 0; i < 120; ++i)
    requests.push_back(document(rng, 4000 + rng.below(i % 10 ? 16000 : 60000)));
  for (int i = 0; i < 120; ++i) logins.push_back(document(rng, 300 + rng.below(2500)));

  constexpr double kTick = 0.05;
  constexpr int kPeriod = 200, kBurst = 80;  // ticks
  const int ticks = int(args.seconds / kTick);
  std::vector<std::vector<Kept>> wheel(ticks + 1);
  std::unordered_map<uint32_t, Kept> sessions;
  std::deque<Kept> audit;
  const uint32_t users = args.count(7000);
  uint64_t ops = 0, check = 0;

  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    for (Kept& done : wheel[tick]) {
      if ((ops & 7) == 0 && hash(done.dom) != done.sum) corrupt("request");
      if (rng.chance(0.005)) {
        auto& items =
            std::get<std::unique_ptr<Array>>(
                std::get<std::unique_ptr<Object>>(done.dom.v)->members.find("items")->second.v)
                ->items;
        Value part = std::move(items[items.size() / 2]);
        const uint64_t sum = hash(part);
        audit.push_back({std::move(part), sum});
      }
      ++ops;
    }
    std::vector<Kept>().swap(wheel[tick]);
    const bool burst = tick % kPeriod < kBurst;
    const double swell = args.wave_size(tick / kPeriod, 0.8, 0.2);
    for (uint32_t n = args.count((burst ? 62 : 1.5) * swell); n > 0; --n) {
      Parser parser{requests[rng.below(requests.size())].data()};
      Value dom = parser.value();
      const uint64_t sum = hash(dom);
      check = mix(check, sum);
      int until = tick + 1 + int(rng.range(4, 70));
      if (until < ticks) wheel[until].push_back({std::move(dom), sum});
    }
    for (uint32_t n = args.count(burst ? 20 : 2); n > 0; --n) {
      Parser parser{logins[rng.below(logins.size())].data()};
      Value dom = parser.value();
      const uint64_t sum = hash(dom);
      auto& slot = sessions[rng.below(users)];
      slot = Kept{std::move(dom), sum};
      ++ops;
    }
  }
  wheel.clear();
  for (auto& kept : audit)
    if (hash(kept.dom) != kept.sum) corrupt("audit");
  for (uint32_t user = 0; user < users; ++user)
    if (auto it = sessions.find(user); it != sessions.end()) {
      if (hash(it->second.dom) != it->second.sum) corrupt("session");
      check = mix(check, it->second.sum);
    }
  finish("jsonapi", ops, check, pace);
}
