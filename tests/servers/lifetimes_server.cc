// SPDX-License-Identifier: Apache-2.0
// A small server whose lifetimes are known, for the loop record, train, run (tests/loop_test.py).
//
//   lifetimes_server SECONDS SEED
//
//   context (all through the wrapper server_alloc)   lives
//   parse_header, build_reply                        one request, well below a millisecond
//   open_session                                     4 to 5 s, or until the server closes it
//   insert_row, grow_index                           for ever; the old index dies at each doubling
//   cache_put                                        20 ms; one in fifty for ever
//
// Time runs in ticks of a millisecond that are waited for, so that the work and the printed
// checksum depend on SECONDS and SEED alone. First line: checksum, bytes ever allocated and live;
// second: resident KiB.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace server {

constexpr int kRequestsPerTick = 20;
constexpr int kRowsPerTick = 3;
constexpr int kCachedPerTick = 3;
constexpr int kTicksPerSession = 4;  // one opens every so many
constexpr uint64_t kCacheTicks = 20;
constexpr uint64_t kPinnedOneIn = 50;

uint64_t allocated_bytes = 0;
uint64_t live_bytes = 0;
uint64_t checksum = 0;

struct Random {
  uint64_t state;
  uint64_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
  }
  uint64_t between(uint64_t low, uint64_t high) { return low + next() % (high - low); }
};

// Objects start with their own size, and every byte behind it is written and summed when they die.
struct Object {
  uint64_t size;
  unsigned char bytes[];
};

// What zmalloc is to Redis: the one place that calls malloc. Its callers tell contexts apart.
[[gnu::noinline]] void* server_alloc(size_t size) {
  auto* object = static_cast<Object*>(malloc(size));
  if (object == nullptr) abort();
  object->size = size;
  memset(object->bytes, static_cast<int>(size), size - sizeof(Object));
  allocated_bytes += size;
  live_bytes += size;
  return object;
}

[[gnu::noinline]] void server_free(void* p) {
  auto* object = static_cast<Object*>(p);
  for (size_t i = 0; i + sizeof(Object) < object->size; i += 7) checksum += object->bytes[i];
  checksum = checksum * 31 + object->size;
  live_bytes -= object->size;
  free(object);
}

[[gnu::noinline]] void parse_header(Random& random, std::vector<void*>& arena) {
  arena.push_back(server_alloc(random.between(24, 200)));
}

[[gnu::noinline]] void* build_reply(Random& random) {
  void* reply = server_alloc(random.between(300, 2000));
  checksum += static_cast<Object*>(reply)->size;
  return reply;
}

[[gnu::noinline]] void handle_request(Random& random, std::vector<void*>& arena) {
  arena.clear();
  for (uint64_t i = random.between(2, 7); i > 0; --i) parse_header(random, arena);
  void* reply = build_reply(random);
  for (void* header : arena) server_free(header);
  server_free(reply);
}

struct Expiring {
  uint64_t end;  // tick
  void* object;
};

struct Sessions {
  std::deque<Expiring> open;

  [[gnu::noinline]] void open_session(Random& random, uint64_t tick) {
    void* session = server_alloc(random.between(400, 600));
    open.push_back({tick + random.between(4000, 5000), session});
  }
  void expire(uint64_t tick) {
    for (Expiring& session : open) {
      if (session.end > tick || session.object == nullptr) continue;
      server_free(session.object);
      session.object = nullptr;
    }
    while (!open.empty() && open.front().object == nullptr) open.pop_front();
  }
};

struct Table {
  Object** index = nullptr;  // of `room` rows, itself an Object with a header in front
  void* storage = nullptr;
  size_t count = 0, room = 0;

  [[gnu::noinline]] void grow_index() {
    const size_t new_room = room == 0 ? 64 : 2 * room;
    void* bigger = server_alloc(sizeof(Object) + new_room * sizeof(Object*));
    auto** rows = reinterpret_cast<Object**>(static_cast<Object*>(bigger)->bytes);
    std::copy(index, index + count, rows);
    if (storage != nullptr) free_index();
    storage = bigger, index = rows, room = new_room;
  }
  void free_index() {  // holds addresses: not summed
    live_bytes -= static_cast<Object*>(storage)->size;
    free(storage);
  }
  [[gnu::noinline]] void insert_row(Random& random) {
    if (count == room) grow_index();
    index[count] = static_cast<Object*>(server_alloc(random.between(100, 400)));
    checksum += index[count++]->size;
  }
  bool is_intact() const {
    return std::all_of(index, index + count, [](const Object* row) {
      return row->bytes[row->size - sizeof(Object) - 1] == static_cast<unsigned char>(row->size);
    });
  }
};

struct Cache {
  std::deque<Expiring> entries;
  std::vector<void*> pinned;

  [[gnu::noinline]] void cache_put(Random& random, uint64_t tick) {
    void* entry = server_alloc(random.between(250, 500));
    if (random.next() % kPinnedOneIn == 0) {
      pinned.push_back(entry);
    } else {
      entries.push_back({tick + kCacheTicks, entry});
    }
  }
  void expire(uint64_t tick) {
    for (; !entries.empty() && entries.front().end <= tick; entries.pop_front()) {
      server_free(entries.front().object);
    }
  }
};

[[gnu::noinline]] void serve(uint64_t ticks, Random& random, Table& table) {
  Sessions sessions;
  Cache cache;
  std::vector<void*> arena;
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t tick = 0; tick < ticks; ++tick) {
    for (int i = 0; i < kRequestsPerTick; ++i) handle_request(random, arena);
    for (int i = 0; i < kRowsPerTick; ++i) table.insert_row(random);
    for (int i = 0; i < kCachedPerTick; ++i) cache.cache_put(random, tick);
    if (tick % kTicksPerSession == 0) sessions.open_session(random, tick);
    cache.expire(tick);
    sessions.expire(tick);
    std::this_thread::sleep_until(start + std::chrono::milliseconds(tick));
  }
  sessions.expire(UINT64_MAX);
}

long resident_kib() {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%*d %ld", &pages) != 1) abort();
  fclose(file);
  return pages * 4;
}

}  // namespace server

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s SECONDS SEED\n", argv[0]);
    return 2;
  }
  server::Random random{strtoull(argv[2], nullptr, 10)};
  server::Table table;
  server::serve(strtoull(argv[1], nullptr, 10) * 1000, random, table);
  if (!table.is_intact()) abort();
  printf("checksum %016llx allocated %llu live %llu\nrss %ld\n",
         static_cast<unsigned long long>(server::checksum),
         static_cast<unsigned long long>(server::allocated_bytes),
         static_cast<unsigned long long>(server::live_bytes), server::resident_kib());
  return 0;
}
