// SPDX-License-Identifier: Apache-2.0
// A columnar store. Rows are appended to column buffers, which grow by realloc, from 256 bytes by
// half each time. A full group of rows is encoded into chunks of exact size, and its buffers are
// freed; tables keep their last groups. Queries decode chunks into vectors that grow by push_back;
// one result in nine goes into a cache, where it stays for 5 to 11 s. Waves of 11 s, a plateau of 6
// s.
//
// Should not pay: troughs are pinned by results in the cache, which live too long for a trough and
// too short for anything else, and by columns that are half full. The same code makes results that
// die at once; growing vectors leave a trail of all sizes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server.h"

constexpr int kColumns = 16;

struct Buffer {  // of a column, in C style
  uint8_t* data = nullptr;
  uint32_t used = 0, size = 0;
  void add(uint64_t value) {
    if (used + 10 > size) {
      size = size ? size + size / 2 : 256;
      data = static_cast<uint8_t*>(realloc(data, size));
      if (!data) abort();
    }
    for (; value >= 128; value >>= 7) data[used++] = uint8_t(value | 128);
    data[used++] = uint8_t(value);
  }
  void drop() {
    free(data);
    *this = Buffer();
  }
};
struct Chunk {
  uint8_t* data;
  uint32_t size, rows;
  uint64_t sum;
};
struct Group {
  Chunk columns[kColumns];
  std::vector<std::string> dictionary;
};
struct Table {
  Buffer columns[kColumns];
  std::vector<std::string> words;
  std::deque<std::unique_ptr<Group>> groups;
  uint32_t rows = 0, full;
  uint64_t last[kColumns] = {};
};
uint64_t sum_of(const Chunk& chunk) {
  return mix_bytes(chunk.rows, reinterpret_cast<const char*>(chunk.data), chunk.size);
}
struct Result {
  std::vector<double> values;
  std::vector<std::pair<std::string, uint64_t>> labels;
  uint64_t sum;
};

uint64_t check_sum = 0;

void seal(Table& table, size_t keep) {
  auto group = std::make_unique<Group>();
  for (int c = 0; c < kColumns; ++c) {
    Buffer& buffer = table.columns[c];
    Chunk& chunk = group->columns[c];
    chunk.size = buffer.used, chunk.rows = table.rows;
    chunk.data = static_cast<uint8_t*>(malloc(buffer.used));
    memcpy(chunk.data, buffer.data, buffer.used);
    chunk.sum = sum_of(chunk);
    check_sum = mix(check_sum, chunk.sum);
    buffer.drop();
    table.last[c] = 0;
  }
  group->dictionary = table.words;  // exact copies
  table.words = {};
  table.rows = 0;
  table.groups.push_back(std::move(group));
  if (table.groups.size() > keep) {
    for (int c = 0; c < kColumns; ++c) {
      Chunk& chunk = table.groups.front()->columns[c];
      if (sum_of(chunk) != chunk.sum) corrupt("chunk");
      free(chunk.data);
    }
    table.groups.pop_front();
  }
}

void append(Rng& rng, Table& table, uint32_t rows, size_t keep) {
  for (; rows > 0; --rows) {
    uint64_t bits = rng.next();
    for (int c = 0; c < kColumns; ++c, bits = (bits >> 4) | (bits << 60)) {
      const uint64_t value = table.last[c] + (bits & ((uint64_t(16) << c) - 1));  // some are wide
      table.columns[c].add(c % 4 ? value & 0xffffffff : bits & 127);
      table.last[c] = value & 0xffff;
    }
    if (table.rows % 16 == 0)
      table.words.push_back("value-of-dictionary-" + std::to_string(rng.below(100000)));
    if (++table.rows == table.full) seal(table, keep);
  }
}

std::unique_ptr<Result> query(Rng& rng, const Table& table) {
  auto result = std::make_unique<Result>();
  uint64_t h = 1;
  const uint32_t at_least = rng.range(1, 4), column = rng.below(kColumns);
  for (size_t g = 0; g < table.groups.size() && g < at_least; ++g) {
    const Group& group = *table.groups[table.groups.size() - 1 - g];
    for (uint32_t c = column % 2; c < kColumns; c += 2) {
      const Chunk& chunk = group.columns[c];
      for (uint32_t i = 0; i < chunk.size;) {
        uint64_t v = 0;
        for (int shift = 0;; shift += 7) {
          v |= uint64_t(chunk.data[i] & 127) << shift;
          if (!(chunk.data[i++] & 128)) break;
        }
        if (v % 16 < 3) result->values.push_back(double(v));
        h += v;
      }
    }
    for (size_t k = column; k < group.dictionary.size(); k += 12)
      result->labels.emplace_back(group.dictionary[k], h);
  }
  for (auto& [label, at] : result->labels) h = mix(mix(h, label), at);
  result->sum = mix(h, result->values.size());
  return result;
}

void verify(const Result& result) {
  double total = 0;
  for (double v : result.values) total += v;
  if (total < 0 || (!result.values.empty() && total < result.values[0])) corrupt("result");
  for (auto& [label, at] : result.labels)
    if (label.compare(0, 20, "value-of-dictionary-") != 0) corrupt("label");
  check_sum += result.sum + uint64_t(total);
}

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  std::vector<Table> tables(args.count(60));
  for (auto& table : tables) table.full = rng.range(3000, 9000);
  for (auto& table : tables) append(rng, table, rng.range(10000, 14000), 3);
  constexpr double kTick = 0.025;
  constexpr int kPeriod = 440, kPlateau = 240;
  const int ticks = int(args.seconds / kTick);
  std::vector<std::vector<std::unique_ptr<Result>>> sending(size_t(ticks) + 1);
  std::vector<std::vector<uint64_t>> expiring(size_t(ticks) + 600);
  std::unordered_map<uint64_t, std::unique_ptr<Result>> cache;
  uint64_t ops = 0;
  double due = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    for (auto& result : sending[size_t(tick)]) verify(*result);
    std::vector<std::unique_ptr<Result>>().swap(sending[size_t(tick)]);
    for (uint64_t id : expiring[size_t(tick)]) {
      auto it = cache.find(id);
      verify(*it->second);
      cache.erase(it);
    }
    const bool busy = tick % kPeriod < kPlateau;
    const double size = args.wave_size(tick / kPeriod, 0.8, 0.2);
    for (uint32_t n = args.count(busy ? 36 * size : 1); n > 0; --n, ++ops)
      append(rng, tables[rng.below(uint32_t(tables.size()))], rng.range(60, 260), 3);
    for (due += args.scale * (busy ? 22 * size : 0.5); due >= 1; due -= 1, ++ops) {
      auto result = query(rng, tables[rng.below(uint32_t(tables.size()))]);
      if (mix(result->sum, 1) % 9 == 0) {
        expiring[size_t(tick) + 200 + rng.below(240)].push_back(ops);
        cache.emplace(ops, std::move(result));
      } else {
        const int until = std::min(ticks, tick + 4 + int(rng.below(60)));
        sending[size_t(until)].push_back(std::move(result));
      }
    }
  }
  sending.clear();
  for (int tick = 0; tick < ticks + 600; ++tick)
    for (uint64_t id : expiring[size_t(tick)])
      if (auto it = cache.find(id); it != cache.end()) verify(*it->second);
  for (auto& table : tables)
    for (auto& group : table.groups)
      for (auto& chunk : group->columns) check_sum = mix(check_sum, chunk.sum);
  finish("colstore", ops, check_sum, pace);
  return 0;  // chunks are left to the kernel
}
