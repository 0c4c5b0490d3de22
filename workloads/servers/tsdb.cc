// SPDX-License-Identifier: Apache-2.0
// A time series store. Samples go into a memtable (std::map), which is flushed into blocks every
// few seconds. The blocks form a ring, their index entries stay. Each series has a ring of
// compressed chunks. Queries come in bursts and build vectors of 100 KB to 4 MB. New series appear
// all the time, old ones stay in the label index.
//
// Why it is hard: the flush ends most objects at once, whatever their age. Small objects that stay
// are made beside them all along, and lulls and flushes follow clocks of their own.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server.h"

struct Chunk {
  std::unique_ptr<uint8_t[]> data;
  uint32_t size, used = 0;
  uint64_t sum = 1;
  explicit Chunk(uint32_t bytes) : data(new uint8_t[bytes]), size(bytes) {}
  bool append(uint64_t delta) {
    if (used + 10 > size) return false;
    sum = mix(sum, delta);
    for (; delta >= 128; delta >>= 7) data[used++] = uint8_t(delta | 128);
    data[used++] = uint8_t(delta);
    return true;
  }
  uint64_t verify() const {
    uint64_t h = 1;
    for (uint32_t i = 0; i < used;) {
      uint64_t v = 0;
      for (int shift = 0;; shift += 7) {
        v |= uint64_t(data[i] & 127) << shift;
        if (!(data[i++] & 128)) break;
      }
      h = mix(h, v);
    }
    if (h != sum) corrupt("chunk");
    return h;
  }
};
struct Series {
  std::map<std::string, std::string> labels;
  std::deque<std::unique_ptr<Chunk>> ring;
  uint64_t samples = 0;
  void append(Rng& rng, uint32_t chunks) {
    const uint64_t delta = rng.next() >> (24 + rng.below(36));
    if (ring.empty() || !ring.back()->append(delta)) {
      ring.push_back(std::make_unique<Chunk>(180 + 60 * uint32_t(samples % 7)));
      ring.back()->append(delta);
      if (ring.size() > chunks) {
        if (samples % 16 == 0) ring.front()->verify();
        ring.pop_front();
      }
    }
    ++samples;
  }
};
struct Key {
  uint32_t series;
  uint64_t time;
  bool operator<(const Key& o) const {
    return series != o.series ? series < o.series : time < o.time;
  }
};
struct Sample {
  double value;
  std::string exemplar;
};
struct Block {
  std::vector<char> bytes;
  uint64_t sum;
};
struct IndexEntry {
  uint64_t block;
  uint32_t count;
  std::string last;
};
struct Flush {
  std::vector<Block> blocks;
};

struct Store {
  std::vector<std::unique_ptr<Series>> series;
  std::map<std::string, std::vector<uint32_t>> by_label;
  std::map<Key, Sample> memtable;
  std::map<std::string, IndexEntry> index;
  std::deque<Flush> ring;
  uint64_t now = 0, flushed = 0, check = 0;

  void add_series(Rng& rng) {
    auto made = std::make_unique<Series>();
    const uint32_t id = uint32_t(series.size());
    for (const char* name : {"job", "instance", "datacenter", "metric_name_of_the_series"})
      if (rng.chance(0.8))
        made->labels.emplace(name,
                             name + ("=" + std::to_string(rng.below(*name == 'i' ? 90000 : 40))));
    for (auto& [name, value] : made->labels) by_label[value].push_back(id);
    series.push_back(std::move(made));
  }
  void write(Rng& rng) {
    const uint32_t id = rng.below(series.size());
    series[id]->append(rng, 6);
    Sample& sample = memtable[{id, ++now}];
    sample.value = rng.unit();
    sample.exemplar.assign(60 + rng.below(220), char('A' + id % 26));
  }
  static std::string name(const Key& key) {
    return "series/" + std::to_string(key.series) + "/" + std::to_string(key.time);
  }
  void flush() {
    Flush flush;
    std::vector<char> bytes;
    bytes.reserve(65536);
    uint32_t count = 0;
    std::string first;
    auto seal = [&](const Key& last) {
      const uint64_t sum = mix_bytes(4, bytes.data(), bytes.size());
      index.emplace(first, IndexEntry{flushed, count, name(last)});
      flush.blocks.push_back({bytes, sum});  // an exact copy
      check = mix(check, sum), ++flushed, count = 0;
      bytes.clear();
    };
    for (auto& [key, sample] : memtable) {
      if (count == 0) first = name(key);
      const char* raw = reinterpret_cast<const char*>(&sample.value);
      bytes.insert(bytes.end(), raw, raw + sizeof sample.value);
      bytes.insert(bytes.end(), sample.exemplar.begin(),
                   sample.exemplar.begin() + long(sample.exemplar.size() / 2));
      if (++count == 40 || bytes.size() > 60000) seal(key);
    }
    if (count) seal(memtable.rbegin()->first);
    memtable.clear();
    ring.push_back(std::move(flush));
    if (ring.size() > 2) {
      for (auto& block : ring.front().blocks)
        if (mix_bytes(4, block.bytes.data(), block.bytes.size()) != block.sum) corrupt("block");
      ring.pop_front();
    }
  }
};
struct Query {
  std::vector<double> values;
  std::vector<std::pair<uint32_t, std::string>> legend;
  double sum;
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed), shape(args.seed + 1000);
  Pace pace;
  Store store;
  for (uint32_t i = args.count(30000); i > 0; --i) store.add_series(rng);
  constexpr double kTick = 0.02;
  const int ticks = int(args.seconds / kTick);
  std::vector<std::vector<Query>> running(ticks + 1);
  int next_flush = 150 + int(shape.below(100));
  uint64_t ops = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    for (Query& query : running[tick]) {
      double sum = 0;
      for (double v : query.values) sum += v;
      if (sum != query.sum) corrupt("query");
    }
    std::vector<Query>().swap(running[tick]);
    const bool lull = tick % 900 >= 560;  // 7 s of every 18
    for (uint32_t n = args.count(lull ? 150 : 2600); n > 0; --n, ++ops) store.write(rng);
    if (tick % 5 == 0)
      for (uint32_t n = args.count(lull ? 3 : 14); n > 0; --n) store.add_series(rng);
    if (tick == next_flush) {
      store.flush();
      next_flush += 130 + int(shape.below(150));
    }
    const bool burst = tick % 250 < 60;
    for (uint32_t n = burst ? 2 : tick % 20 == 0; n > 0; --n, ++ops) {
      Query query;
      const double bytes =
          (100e3 + 3.9e6 * shape.unit() * shape.unit()) * std::min(1.0, args.scale);
      if (shape.chance(0.5)) query.values.reserve(size_t(bytes / 8));  // else it grows by doubling
      query.sum = 0;
      for (size_t i = 0, n = size_t(bytes / 8); i < n; ++i) {
        const double v = double((i * 2654435761u + ops) & 1023);
        query.values.push_back(v), query.sum += v;
      }
      for (int i = 0; i < 60; ++i) {
        const uint32_t id = shape.below(store.series.size());
        std::string text;
        for (auto& [name, value] : store.series[id]->labels) text += value + ",";
        query.legend.emplace_back(id, std::move(text));
      }
      const int until = tick + 2 + int(shape.below(28));
      if (until < ticks) running[until].push_back(std::move(query));
    }
  }
  for (auto& one : store.series)
    for (auto& chunk : one->ring) store.check = mix(store.check, chunk->verify());
  for (auto& [first, entry] : store.index) store.check = mix(mix(store.check, first), entry.last);
  finish("tsdb", ops, store.check, pace);
  return 0;
}
