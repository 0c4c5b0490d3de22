// SPDX-License-Identifier: Apache-2.0
// A daemon that builds software. Each build (every 8.8 s) loads a graph of actions, held by
// shared_ptr: their command lines, inputs and outputs, and what their compiler said. It is run in
// order of dependency, and dropped at its end. What stays: the state of each file (digest and
// includes), replaced when a file was edited, and results of actions, until 60,000 newer ones have
// come.
//
// Should pay: the graph and the two caches have their own functions, but share std::string, and the
// caches fill while the graph is alive.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server.h"

struct Action;
struct Artifact {
  std::string path;
  uint64_t digest = 0;
  std::weak_ptr<Action> producer;
};
struct Action {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  std::vector<std::shared_ptr<Artifact>> inputs;
  std::shared_ptr<Artifact> output;
  std::vector<std::weak_ptr<Action>> waiting;
  std::unique_ptr<std::string> said;
  uint64_t key = 0;
  uint32_t missing = 0, source = 0;
};
struct FileState {
  uint64_t digest;
  uint32_t edits = 0;
  std::vector<std::string> includes;
};
struct Result {
  std::vector<std::string> outputs;
  std::string said;
  uint64_t sum;
};

std::string source_path(uint32_t file) {
  return "src/component_" + std::to_string(file % 211) + "/part_of_it/file_" +
         std::to_string(file) + (file % 3 ? ".h" : ".cc");
}

struct FileCache {
  std::unordered_map<std::string, std::unique_ptr<FileState>> files;
  uint64_t looked = 0, read = 0;
  // The file's digest; reads the file if nobody has, or if it was edited since.
  FileState& state(Rng& rng, uint32_t file, uint32_t edits) {
    const std::string path = source_path(file);
    ++looked;
    auto it = files.find(path);
    if (it == files.end() || it->second->edits != edits) {
      auto made = std::make_unique<FileState>();
      made->digest = mix(mix(9, path), edits);
      made->edits = edits;
      for (int n = int(rng.range(2, 9)); n > 0; --n)
        made->includes.push_back(source_path(rng.below(file + 50)));
      ++read;
      if (it == files.end()) it = files.emplace(path, nullptr).first;
      it->second = std::move(made);
    }
    if (it->second->digest != mix(mix(9, path), edits)) corrupt("state of a file");
    return *it->second;
  }
};
struct ActionCache {
  std::unordered_map<uint64_t, std::shared_ptr<const Result>> results;
  std::deque<uint64_t> order;
  size_t limit;
  uint64_t hits = 0;
  bool has(uint64_t key) {
    auto it = results.find(key);
    if (it == results.end()) return false;
    if (it->second->sum != mix(mix(4, it->second->said), it->second->outputs[0])) corrupt("result");
    return ++hits, true;
  }
  void store(uint64_t key, const Action& action) {
    auto result = std::make_shared<Result>();
    result->outputs = {action.output->path, action.output->path + ".dependencies"};
    if (action.said) result->said = action.said->substr(0, 160);
    result->sum = mix(mix(4, result->said), result->outputs[0]);
    if (!results.emplace(key, std::move(result)).second) return;
    order.push_back(key);
    if (order.size() > limit) results.erase(order.front()), order.pop_front();
  }
};

struct Daemon {
  FileCache files;
  ActionCache cache;
  std::vector<uint32_t> edits;  // of each file
  std::vector<std::shared_ptr<Action>> build;
  std::deque<std::shared_ptr<Action>> ready;
  uint64_t ops = 0, check = 0;

  void load(Rng& rng, uint32_t actions) {
    for (; actions > 0; --actions) {
      auto action = std::make_shared<Action>();
      action->source = rng.below(uint32_t(edits.size()));
      const std::string source = source_path(action->source);
      for (const char* word : {"/usr/bin/c++-of-the-toolchain", "-O2", "-fno-omit-frame-pointer",
                               "-Wall", "-Wextra-semi-of-the-project", "-c"})
        action->arguments.emplace_back(word);
      for (int n = int(rng.range(5, 14)); n > 0; --n)
        action->arguments.push_back("-Iout/generated/include/" + std::to_string(rng.below(400)));
      action->arguments.push_back(source);
      action->environment["PATH"] = "/usr/local/bin:/usr/bin:/bin";
      action->environment["OUT"] = "/build/workspace/" + std::to_string(action->source % 1000);
      action->output = std::make_shared<Artifact>();
      action->output->path = "out/objects/" + source + "." + std::to_string(build.size()) + ".o";
      action->output->producer = action;
      for (int n = int(rng.range(1, 5)); n > 0 && !build.empty(); --n) {
        // Mostly on recent ones, so chains are deep.
        const uint32_t size = uint32_t(build.size()), back = std::min(size, 1 + rng.below(4000));
        auto& from = build[size - back];
        action->inputs.push_back(from->output);
        if (from->output->digest == 0) ++action->missing, from->waiting.push_back(action);
      }
      build.push_back(action);
      if (action->missing == 0) ready.push_back(std::move(action));
      ++ops;
    }
  }
  void run(Rng& rng, uint32_t actions) {
    for (; actions > 0 && !ready.empty(); --actions, ++ops) {
      std::shared_ptr<Action> action = std::move(ready.front());
      ready.pop_front();
      uint64_t key = 8;
      for (auto& word : action->arguments) key = mix(key, word);
      for (auto& [name, value] : action->environment) key = mix(mix(key, name), value);
      const FileState& state = files.state(rng, action->source, edits[action->source]);
      key = mix(key, state.digest);
      for (size_t n = state.includes.size(); n > 0; --n) {  // what it includes was edited, too?
        const uint32_t file = uint32_t(mix(state.digest, n) % edits.size());
        const FileState& included = files.state(rng, file, edits[file]);
        key = mix(key, included.digest);
        if (n % 3 == 0) dependencies(included, action->output->path, key);
      }
      action->key = key;
      if (action->source % 8 < 5) key = action->source + edits[action->source];  // often the same
      if (!cache.has(key)) {
        action->said = std::make_unique<std::string>();
        for (int n = int(rng.below(8)); n > 0; --n)
          *action->said += action->arguments.back() + ": warning: unused variable\n";
        cache.store(key, *action);
      }
      action->output->digest = action->key | 1;
      check = mix(check, action->key);
      for (auto& weak : action->waiting)
        if (auto next = weak.lock(); next && --next->missing == 0) ready.push_back(std::move(next));
      action->waiting.clear();
    }
  }
  // As the compiler would write them, and what is known of each.
  void dependencies(const FileState& state, const std::string& output, uint64_t& key) {
    std::string text = output + ":";
    for (auto& path : state.includes) (text += ' ') += path;
    for (size_t at = text.find(' '); at != std::string::npos;) {
      const size_t next = text.find(' ', at + 1);
      auto it = files.files.find(text.substr(at + 1, next - at - 1));
      if (it != files.files.end()) key = mix(key, it->second->digest);
      at = next;
    }
  }
  void drop(size_t actions) {
    for (; actions > 0 && !build.empty(); --actions) {
      check += build.back()->output->digest + build.back()->arguments.back().size();
      build.pop_back();
    }
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  Daemon daemon;
  daemon.cache.limit = args.count(60000);
  daemon.edits.resize(args.count(60000));
  for (uint32_t file = 0; file < daemon.edits.size() / 2; ++file) daemon.files.state(rng, file, 0);
  constexpr double kTick = 0.02;
  constexpr int kPeriod = 440;
  const int ticks = int(args.seconds / kTick);
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    const int within = tick % kPeriod, wave = tick / kPeriod;
    const double size = args.wave_size(wave, 0.75, 0.25);
    if (within < 130) daemon.load(rng, args.count(920 * size));
    if (within >= 20 && within < 250) daemon.run(rng, args.count(540 * size));
    if (within == 250) daemon.ready.clear();
    if (within >= 262 && within < 277) daemon.drop(daemon.build.size() / size_t(277 - within) + 1);
    if (within >= 290 && within % 20 == 0) {  // somebody builds a few files again and again
      daemon.load(rng, args.count(150));
      daemon.run(rng, args.count(150));
      daemon.ready.clear();
      daemon.drop(daemon.build.size());
    }
    for (uint32_t n = args.count(within < 262 ? 2 : 8); n > 0; --n)
      ++daemon.edits[rng.below(uint32_t(daemon.edits.size()))];
  }
  daemon.ready.clear();
  daemon.drop(daemon.build.size());
  for (uint64_t key : daemon.cache.order) daemon.cache.has(key);
  finish("buildd", daemon.ops + daemon.cache.hits + daemon.files.looked,
         mix(daemon.check, daemon.files.read), pace);
  return 0;
}
