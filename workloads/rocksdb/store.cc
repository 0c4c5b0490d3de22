// SPDX-License-Identifier: Apache-2.0
// A RocksDB load: fill at random, overwrite, scan, delete and compact, in waves.
//
//   store FOLDER KEYS SEED     keys of 16 bytes, values of 20 to 4,000 bytes (log-normal)
//
// What it does to memory: memtables (arenas of some MB) that die by flush, blocks in the LRU cache
// that die by eviction, iterators and compaction buffers of all sizes, table readers that stay.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using rocksdb::DB;

void check(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "store: %s\n", status.ToString().c_str());
  std::exit(1);
}

std::string key_of(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(number * 0x9e3779b97f4a7c15));
  return {text, 16};
}

class Load {
 public:
  Load(DB& db, uint64_t keys, uint64_t seed) : db_(db), keys_(keys), random_(seed) {}

  void fill(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) check(db_.Put({}, key_of(pick()), value()));
  }
  void read(uint64_t count) {
    std::string found;
    for (uint64_t i = 0; i < count; ++i) db_.Get({}, key_of(pick()), &found);
  }
  void scan(uint64_t scans, int length) {
    for (uint64_t i = 0; i < scans; ++i) {
      std::unique_ptr<rocksdb::Iterator> at(db_.NewIterator({}));
      std::vector<std::string> page;
      at->Seek(key_of(pick()));
      for (int n = 0; at->Valid() && n < length; ++n, at->Next()) {
        page.push_back(at->value().ToString());
      }
    }
  }
  void remove(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) check(db_.Delete({}, key_of(pick())));
  }

 private:
  uint64_t pick() { return random_() % keys_; }
  std::string value() {
    const double size = std::exp(std::normal_distribution(5.5, 0.9)(random_));
    return std::string(static_cast<size_t>(std::clamp(size, 20.0, 4000.0)), 'v');
  }

  DB& db_;
  uint64_t keys_;
  std::mt19937_64 random_;
};

rocksdb::Options options() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(64 << 20);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 16 << 20;
  options.max_background_jobs = 2;
  options.compression = rocksdb::kLZ4Compression;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

void wave(DB& db, uint64_t keys, uint64_t seed) {
  Load(db, keys, seed).fill(keys);
  std::vector<std::thread> readers;
  for (uint64_t r = 0; r < 4; ++r) {
    readers.emplace_back([&db, keys, seed, r] {
      Load load(db, keys, seed * 16 + r);
      load.read(keys / 4);
      load.scan(keys / 500, 200);
    });
  }
  for (std::thread& reader : readers) reader.join();
  Load(db, keys, seed + 1).remove(keys / 2);
  check(db.CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: store FOLDER KEYS SEED\n", stderr);
    return 2;
  }
  DB* opened = nullptr;
  check(DB::Open(options(), argv[1], &opened));
  const std::unique_ptr<DB> db(opened);
  const uint64_t keys = std::strtoull(argv[2], nullptr, 10);
  const uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  for (uint64_t n = 0; n < 3; ++n) wave(*db, keys, seed + 100 * n);
  check(db->Close());
}
