// SPDX-License-Identifier: Apache-2.0
// A key-value store with versions. A write puts a new version in front of its row's chain; readers
// see what was newest when their snapshot was taken. Reports hold a snapshot for 4.5 s of every 8
// s; until it ends no version may go, so writes pile up. Then a vacuum frees all versions but the
// newest of each row, in half a second. Versions are C structs by malloc, all from one function.
//
// Should not pay: nearly all versions of a wave die together, and look short-lived. But the last
// one of each row stays until somebody writes that row again: soon for hot rows, never for cold
// ones. Only the data decide which.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server.h"

struct Version {
  Version* older;
  uint64_t begin, sum;
  uint32_t row, length;
  char value[];
};
struct Write {
  uint32_t row;
  std::string key, value;
};

std::string noise;

struct Store {
  std::map<std::string, uint32_t> index;
  std::vector<Version*> rows;
  std::vector<uint32_t> dirty;  // rows with more than one version
  std::multiset<uint64_t> snapshots;
  uint64_t now = 1, check = 0, freed = 0, live = 0;

  Version* make(uint32_t row, const char* value, uint32_t length) {
    Version* v = static_cast<Version*>(malloc(sizeof(Version) + length));
    if (!v) abort();
    v->begin = now, v->row = row, v->length = length, v->older = nullptr;
    memcpy(v->value, value, length);
    v->sum = mix_bytes(row, value, length);
    ++live;
    return v;
  }
  void put(const std::string& key, const std::string& value) {
    auto [it, is_new] = index.try_emplace(key, uint32_t(rows.size()));
    const uint32_t row = it->second;
    if (is_new) rows.push_back(nullptr);
    Version* v = make(row, value.data(), uint32_t(value.size()));
    v->older = rows[row];
    if (v->older && !v->older->older) dirty.push_back(row);
    rows[row] = v;
  }
  const Version* get(uint32_t row, uint64_t snapshot) const {
    const Version* v = rows[row];
    while (v && v->begin > snapshot) v = v->older;
    if (v && mix_bytes(v->row, v->value, v->length) != v->sum) corrupt("version");
    return v;
  }
  void commit(std::vector<Write>& writes) {
    ++now;
    for (auto& write : writes) put(write.key, write.value);
    writes.clear();
  }
  void vacuum(size_t count) {
    const uint64_t horizon = snapshots.empty() ? now : *snapshots.begin();
    size_t kept = 0;
    count = std::min(count, dirty.size());
    for (size_t i = dirty.size() - count; i < dirty.size(); ++i) {
      Version* v = rows[dirty[i]];
      while (v->begin > horizon && v->older) v = v->older;  // what some snapshot may see
      Version* old = v->older;
      v->older = nullptr;
      for (; old; ++freed, --live) {
        Version* next = old->older;
        check += old->sum;
        free(old);
        old = next;
      }
      if (rows[dirty[i]]->older) dirty[dirty.size() - count + kept++] = dirty[i];
    }
    dirty.resize(dirty.size() - count + kept);
  }
};

std::string key_of(uint32_t row) {
  char key[64];
  const int n = snprintf(key, sizeof key, "tenant/%u/table/%u/record/%u", row % 31, row % 7, row);
  return std::string(key, size_t(n));
}
std::string value_of(Rng& rng, uint32_t row) {
  const uint32_t typical = 80 + row * 7 % 300;  // a row's values are of like size
  return noise.substr(rng.below(40000), typical + rng.below(60));
}

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed);
  Pace pace;
  for (int i = 0; i < 50000; ++i) noise += char('0' + rng.below(70));
  Store store;
  const uint32_t rows = args.count(150000), hot = rows / 16;
  uint32_t known = rows;
  for (uint32_t row = 0; row < rows; ++row) store.put(key_of(row), value_of(rng, row));
  constexpr double kTick = 0.02;
  constexpr int kPeriod = 400, kReport = 225, kVacuum = 25;
  const int ticks = int(args.seconds / kTick);
  std::vector<Write> transaction;
  uint64_t ops = 0, report = 0, scanned = 0, found = 0;
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    const int within = tick % kPeriod, wave = tick / kPeriod;
    const double size = args.wave_size(wave, 0.75, 0.25);
    const bool busy = within < kReport;
    if (within == 0) store.snapshots.insert(report = store.now), scanned = 0;
    for (uint32_t n = args.count(busy ? 210 * size : 14); n > 0; --n) {
      for (uint32_t k = rng.range(4, 30); k > 0; --k) {
        uint32_t row = rng.chance(0.65) ? uint32_t(rng.unit() * rng.unit() * hot) : rng.below(rows);
        if (rng.chance(0.003)) row = known++;
        transaction.push_back({row, key_of(row), value_of(rng, row)});
      }
      ops += transaction.size();
      store.commit(transaction);
    }
    if (busy) {  // the report reads on, and others read what is newest
      for (uint32_t n = args.count(800); n > 0; --n)
        if (auto* v = store.get(uint32_t(scanned++ * 7 % rows), report))
          store.check += v->begin <= report ? v->sum : (corrupt("snapshot"), 0), ++found;
    }
    for (uint32_t n = args.count(busy ? 2000 : 800); n > 0; --n)
      if (auto* v = store.get(rng.below(uint32_t(store.rows.size())), store.now))
        found += v->length;
    if (within == kReport) store.snapshots.erase(report);
    if (within >= kReport && within < kReport + kVacuum)
      store.vacuum(store.dirty.size() / size_t(kReport + kVacuum - within) + 1);
    else if (!busy && within % 10 == 0)
      store.vacuum(store.dirty.size());
  }
  store.snapshots.clear();
  store.vacuum(store.dirty.size());
  for (auto& [key, row] : store.index)
    if (auto* v = store.get(row, store.now)) store.check = mix(mix(store.check, key), v->sum);
  if (store.live != store.rows.size()) corrupt("count of versions");
  finish("mvcc", ops + found, mix(store.check, store.freed), pace);
  return 0;  // the versions are left to the kernel
}
