// SPDX-License-Identifier: Apache-2.0
#include "generator/stack_names.h"

#include <array>

namespace llamalloc::generator {
namespace {

constexpr size_t kWords = 6;
struct Theme {
  const char* space;
  std::array<const char*, kWords> classes, verbs;
};

// By lifetime: up to 10 ms, 1 s, 100 s, longer; then sessions and heavy tails.
constexpr Theme kThemes[] = {
    {"codec",
     {"Parser", "Decoder", "Formatter", "Tokenizer", "Escaper", "Matcher"},
     {"parse", "decode", "format", "split", "append", "match"}},
    {"rpc",
     {"Request", "Response", "Handler", "Message", "Query", "Reply"},
     {"receive", "build", "handle", "merge", "execute", "send"}},
    {"storage",
     {"BlockCache", "Index", "WriteBuffer", "Compactor", "Page", "Iterator"},
     {"insert", "load", "flush", "fill", "seek", "prefetch"}},
    {"config",
     {"Registry", "Schema", "Interner", "Catalog", "Metrics", "Settings"},
     {"add", "define", "intern", "record", "register_one", "read"}},
    {"net",
     {"Connection", "Session", "Login", "Channel", "Subscription", "Stream"},
     {"open", "attach", "accept", "upgrade", "subscribe", "start"}},
    {"graph",
     {"Node", "Edge", "Observer", "Task", "Cursor", "Lease"},
     {"create", "link", "watch", "spawn", "clone", "grant"}},
};

const Theme& theme_of(const Lifetime& lifetime, Random& random) {
  if (random.chance(0.2)) return kThemes[random.below(std::size(kThemes))];
  if (lifetime.kind() == LifetimeKind::session) return kThemes[4];
  if (lifetime.kind() == LifetimeKind::heavy) return kThemes[5];
  const double mean = lifetime.mean();
  return kThemes[mean < 0.01 ? 0 : mean < 1 ? 1 : mean < 100 ? 2 : 3];
}

std::string method(const Theme& theme, Random& random) {
  const std::string type = theme.classes[random.below(kWords)];
  return std::string(theme.space) + "::" + type + "::" + theme.verbs[random.below(kWords)];
}

}  // namespace

std::vector<std::string> make_frames(const Lifetime& lifetime, uint32_t number, Random& random) {
  static constexpr const char* kSites[] = {
      "operator new(unsigned long)",
      "std::vector<char, std::allocator<char>>::reserve(unsigned long)",
      "std::string::_M_create(unsigned long&, unsigned long)",
      "util::Buffer::grow(unsigned long)",
  };
  const Theme& theme = theme_of(lifetime, random);
  std::vector<std::string> frames = {kSites[random.below(std::size(kSites))]};
  frames.push_back(method(theme, random) + "_" + std::to_string(number) + "(unsigned long)");
  for (uint32_t more = random.below(5); more > 0; --more) {
    frames.push_back(method(random.chance(0.6) ? theme : kThemes[1], random) + "()");
  }
  frames.push_back("server::Worker::run_" + std::to_string(random.below(8)) + "()");
  frames.emplace_back("main");
  return frames;
}

}  // namespace llamalloc::generator
