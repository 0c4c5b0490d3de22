// SPDX-License-Identifier: Apache-2.0
// Renders text templates. A page is a vector of small strings, which are then joined. Both live
// until a slow client has read them. Some pages are moved into an LRU cache. The load is a sine of
// 20 s.
//
// Why it is hard: the same context makes pages that die and pages that stay until they are evicted.
// The load never stands still at its low point, so troughs have no edge.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "server.h"

struct Scope {
  std::unordered_map<std::string, std::string> values;
  const Scope* outer = nullptr;
  const std::string* find(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (auto it = s->values.find(name); it != s->values.end()) return &it->second;
    return nullptr;
  }
};
struct Node {
  enum Kind { kText, kVariable, kLoop, kUpper } kind;
  std::string text;
  std::vector<Node> body;
};
struct Page {
  std::vector<std::string> pieces;
  std::string text;
  uint64_t sum = 0;
};

Node make_template(Rng& rng, int depth) {
  Node node{Node::kLoop, "", {}};
  for (int n = int(rng.range(4, 12)); n > 0; --n) {
    const uint32_t dice = rng.below(10);
    if (dice < 4) {
      std::string text = "<div class=\"";
      for (uint32_t k = rng.below(50); k > 0; --k) text += char('a' + rng.below(26));
      node.body.push_back({Node::kText, text + "\">", {}});
    } else if (dice < 7) {
      node.body.push_back(
          {Node::kVariable, "variable_of_page_" + std::to_string(rng.below(12)), {}});
    } else if (dice < 8 || depth == 0) {
      node.body.push_back({Node::kUpper, "title_" + std::to_string(rng.below(4)), {}});
    } else {
      node.body.push_back(make_template(rng, depth - 1));
      node.body.back().text = std::to_string(rng.range(2, 7));
    }
  }
  return node;
}

void render(const Node& node, const Scope& scope, Page& page) {
  switch (node.kind) {
    case Node::kText:
      page.pieces.push_back(node.text);
      break;
    case Node::kVariable: {
      const std::string* value = scope.find(node.text);
      std::string piece = "<span>";
      piece += value ? *value : "?";
      piece += "</span>";
      page.pieces.push_back(std::move(piece));
      break;
    }
    case Node::kUpper: {
      std::string piece;
      if (const std::string* value = scope.find(node.text))
        for (char c : *value) piece += char(c >= 'a' && c <= 'z' ? c - 32 : c);
      page.pieces.push_back(std::move(piece));
      break;
    }
    case Node::kLoop: {
      const int times = node.text.empty() ? 1 : atoi(node.text.c_str());
      for (int i = 0; i < times; ++i) {
        Scope inner;
        inner.outer = &scope;
        inner.values.emplace("variable_of_page_0",
                             "row number " + std::to_string(i) + " of " + std::to_string(times));
        for (const Node& child : node.body) render(child, inner, page);
      }
    }
  }
}

struct Cache {
  struct Entry {
    std::string key, text;
    uint64_t sum;
  };
  std::list<Entry> order;
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key;
  size_t bytes = 0, limit;
  uint64_t evicted = 0;
  const Entry* get(const std::string& key) {
    auto it = by_key.find(key);
    if (it == by_key.end()) return nullptr;
    order.splice(order.begin(), order, it->second);
    return &*it->second;
  }
  void put(const std::string& key, std::string text) {
    const uint64_t sum = mix(6, text);
    bytes += text.size();
    order.push_front({key, std::move(text), sum});
    by_key[key] = order.begin();
    while (bytes > limit) {
      Entry& last = order.back();
      if (mix(6, last.text) != last.sum) corrupt("cached page");
      bytes -= last.text.size();
      by_key.erase(last.key);
      order.pop_back();
      ++evicted;
    }
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  std::vector<Node> templates;
  for (int i = 0; i < 60; ++i) templates.push_back(make_template(rng, 3));
  Scope site;
  for (int i = 0; i < 12; ++i)
    site.values.emplace("variable_of_page_" + std::to_string(i),
                        std::string(8 + rng.below(60), 'v'));
  for (int i = 0; i < 4; ++i)
    site.values.emplace("title_" + std::to_string(i), std::string(10 + rng.below(40), 't'));
  Cache cache;
  cache.limit = args.count(60e6);
  constexpr double kTick = 0.025;
  const int ticks = int(args.seconds / kTick);
  std::vector<std::vector<std::unique_ptr<Page>>> sending(ticks + 1);
  uint64_t ops = 0, check = 0, pieces = 0;
  double due = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    for (auto& page : sending[tick]) {
      uint64_t length = 0;
      for (auto& piece : page->pieces) length += piece.size();
      if (!page->text.empty() && (length != page->text.size() || mix(6, page->text) != page->sum))
        corrupt("page");
      check += page->sum;
    }
    std::vector<std::unique_ptr<Page>>().swap(sending[tick]);
    const double phase = (tick * kTick - 5) / 20 * 2 * 3.14159265;
    const double load = 0.06 + 0.94 * std::pow((1 + std::sin(phase)) / 2, 1.6);
    // A page takes as long as its template is large, so pages are counted in pieces.
    for (due += 60000 * args.scale * load; due > 0;) {
      const uint32_t which = rng.below(60),
                     variant = uint32_t(rng.unit() * rng.unit() * 60000 * args.scale);
      const std::string key =
          "/section/" + std::to_string(which) + "/article/" + std::to_string(variant);
      ++ops;
      if (const auto* hit = cache.get(key)) {
        check += hit->sum;
        due -= 40;
        continue;
      }
      auto page = std::make_unique<Page>();
      Scope request;
      request.outer = &site;
      for (int i = 0; i < 5; ++i)
        request.values["variable_of_page_" + std::to_string(3 + i)] =
            key + "?visitor=" + std::to_string(rng.below(100000));
      render(templates[which], request, *page);
      for (auto& piece : page->pieces) page->text += piece;
      page->sum = mix(6, page->text);
      pieces += page->pieces.size();
      due -= double(page->pieces.size()) + 40;
      if (rng.chance(0.25)) cache.put(key, std::move(page->text)), page->text.clear();
      const int until = tick + 4 + int(70 * rng.unit() * rng.unit()) +
                        (rng.chance(0.01) ? 160 : 0);  // slow clients
      if (until < ticks) sending[until].push_back(std::move(page));
    }
  }
  sending.clear();
  for (auto& entry : cache.order) {
    if (mix(6, entry.text) != entry.sum) corrupt("cache at the end");
    check += entry.sum;
  }
  finish("templ", ops + pieces, mix(check, cache.evicted), pace);
  return 0;
}
