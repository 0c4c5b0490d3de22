// SPDX-License-Identifier: Apache-2.0
// jemalloc's interface as its callers use it: redis, folly, MariaDB, exporters.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" {
__attribute__((weak)) int mallctl(const char*, void*, size_t*, void*, size_t);
__attribute__((weak)) int mallctlnametomib(const char*, size_t*, size_t*);
__attribute__((weak)) int mallctlbymib(const size_t*, size_t, void*, size_t*, void*, size_t);
__attribute__((weak)) void malloc_stats_print(void (*)(void*, const char*), void*, const char*);
__attribute__((weak)) void* mallocx(size_t, int);
__attribute__((weak)) void* rallocx(void*, size_t, int);
}

#define EXPECT(x) \
  if (!(x)) return printf("line %d: %s\n", __LINE__, #x), 1

template <typename T>
static int read(const char* name, T* out) {
  size_t length = sizeof(T);
  return mallctl(name, out, &length, nullptr, 0);
}

static int epoch() {
  uint64_t number = 1;
  size_t length = sizeof(number);
  return mallctl("epoch", &number, &length, &number, length);
}

int main() {
  EXPECT(mallctl && mallctlnametomib && mallctlbymib && malloc_stats_print);
  // folly takes an allocator for jemalloc only if it has all of these; what it does then we lack.
  EXPECT(!mallocx && !rallocx);
  // MariaDB does not look at the result.
  const char* version = nullptr;
  EXPECT(read("version", &version) == 0 && strncmp(version, "llamalloc", 9) == 0);

  size_t before = 0, after = 0, active = 0, resident = 0, mapped = 0, retained = 0, metadata = 0;
  EXPECT(epoch() == 0 && read("stats.allocated", &before) == 0);
  void* volatile p = malloc(50 << 20);
  memset(p, 1, 50 << 20);
  EXPECT(read("stats.allocated", &after) == 0 && after == before);  // until the next epoch
  EXPECT(epoch() == 0 && read("stats.allocated", &after) == 0);
  EXPECT(after - before >= size_t{50} << 20 && after - before < size_t{52} << 20);
  EXPECT(read("stats.active", &active) == 0 && active >= after);
  EXPECT(read("stats.resident", &resident) == 0 && resident >= active);
  EXPECT(read("stats.mapped", &mapped) == 0 && mapped >= resident);
  EXPECT(read("stats.retained", &retained) == 0);
  EXPECT(read("stats.metadata", &metadata) == 0 && metadata > 0);

  unsigned arenas = 0;
  size_t page = 0, size = 0;
  EXPECT(read("arenas.narenas", &arenas) == 0 && arenas == 1);
  EXPECT(read("arenas.page", &page) == 0 && page >= 4096);
  free(p);
  EXPECT(mallctl("arena.0.purge", nullptr, nullptr, nullptr, 0) == 0);
  EXPECT(mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0) == 0);
  EXPECT(mallctl("arena.x.purge", nullptr, nullptr, nullptr, 0) == ENOENT);

  // What is not known, wrong lengths, writes.
  bool flag = true;
  uint64_t* counter = nullptr;
  EXPECT(mallctl("background_thread", nullptr, nullptr, &flag, sizeof(flag)) == ENOENT);
  EXPECT(read("thread.allocatedp", &counter) == ENOENT && counter == nullptr);
  for (const char* name :
       {"", ".", "stats", "stats.", "stats.allocatedx", "opt.prof", "config.prof"})
    EXPECT(read(name, &size) == ENOENT);
  uint32_t small = 0;
  size_t room = 0;
  EXPECT(read("stats.allocated", &small) == EINVAL);
  EXPECT(mallctl("stats.allocated", nullptr, nullptr, &size, sizeof(size)) == EPERM);
  EXPECT(mallctl("epoch", nullptr, nullptr, &small, sizeof(small)) == EINVAL);
  EXPECT(mallctl("stats.allocated", nullptr, nullptr, nullptr, sizeof(size)) == EPERM);
  unsigned arena = 7;
  room = sizeof(arena);  // a length without a value is no write
  EXPECT(mallctl("thread.arena", &arena, &room, nullptr, sizeof(arena)) == 0 && arena == 0);

  // Only a jemalloc beside us could answer these.
  for (const char* name : {"arenas.nbins", "arenas.bin.0.size", "arenas.create", "tcache.create",
                           "stats.arenas.4096.pmuzzy"})
    EXPECT(read(name, &size) == ENOENT);

  // By numbers, one of them replaced.
  size_t mib[4], length = 4;
  room = sizeof(size);
  EXPECT(mallctlnametomib("arenas.page", mib, &length) == 0 && length == 2);
  EXPECT(mallctlbymib(mib, length, &size, &room, nullptr, 0) == 0 && size == page);
  length = 4;
  EXPECT(mallctlnametomib("arena.0.purge", mib, &length) == 0 && length == 3);
  mib[1] = 4096;
  EXPECT(mallctlbymib(mib, length, nullptr, nullptr, nullptr, 0) == 0);
  EXPECT(mallctlbymib(mib, length - 1, nullptr, nullptr, nullptr, 0) == ENOENT);
  length = 1;
  EXPECT(mallctlnametomib("stats.allocated", mib, &length) == EINVAL);
  EXPECT(mallctlnametomib("no.such", mib, &length) == ENOENT);
  for (const size_t unknown : {size_t{0}, size_t{10'000}, SIZE_MAX}) {
    mib[0] = unknown;
    EXPECT(mallctlbymib(mib, 1, &size, &room, nullptr, 0) == ENOENT);
  }

  static std::string text, json;
  const auto add = [](void* data, const char* part) { *static_cast<std::string*>(data) += part; };
  malloc_stats_print(add, &text, nullptr);
  malloc_stats_print(add, &json, "J");
  EXPECT(text.find("___ Begin jemalloc statistics ___\n") == 0 && text.back() == '\n');
  EXPECT(text.find("\nAllocated: ") != std::string::npos);
  EXPECT(json.find("{\"jemalloc\":{\"version\":") == 0 && json.find("}}}\n") == json.size() - 4);
  text.clear();
  malloc_stats_print(add, &text, "gmdablxeh");
  EXPECT(text.find("Version") == std::string::npos && text.find("Allocated") < 60);
  malloc_stats_print(nullptr, nullptr, nullptr);
  printf("ok\n%s", json.c_str());
  return 0;
}
