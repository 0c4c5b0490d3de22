// SPDX-License-Identifier: Apache-2.0
// A program that is linked with jemalloc and uses what only jemalloc has: mallocx and arenas of its
// own. It frees their objects by any of the functions that jemalloc allows.
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

extern "C" {
void* mallocx(size_t, int);
void* rallocx(void*, size_t, int);
void dallocx(void*, int);
void sdallocx(void*, size_t, int);
size_t sallocx(const void*, int);
size_t nallocx(size_t, int);
int mallctl(const char*, void*, size_t*, void*, size_t);
int mallctlnametomib(const char*, size_t*, size_t*);
int mallctlbymib(const size_t*, size_t, void*, size_t*, void*, size_t);
void malloc_stats_print(void (*)(void*, const char*), void*, const char*);
}

#define EXPECT(...)                                                             \
  do {                                                                          \
    if (!(__VA_ARGS__)) {                                                       \
      printf("%s:%d: %s, errno %d\n", __FILE__, __LINE__, #__VA_ARGS__, errno); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

// jemalloc_early.cc: a library, whose constructors come before those of a preloaded one.
extern "C" int freed_by_constructor;

namespace {

template <typename T>
int read(const char* name, T* value) {
  size_t length = sizeof(T);
  return mallctl(name, value, &length, nullptr, 0);
}

size_t allocated() {
  uint64_t number = 1;
  size_t length = sizeof(number), bytes = 0;
  EXPECT(mallctl("epoch", &number, &length, &number, length) == 0);
  EXPECT(read("stats.allocated", &bytes) == 0);
  return bytes;
}

void free_each_way(size_t size) {
  errno = 0;
  sdallocx(mallocx(size, 0), size, 0);
  sdallocx(malloc(size), size, 0);
  dallocx(mallocx(size, 0), 0);
  free(mallocx(size, 0));
  void* p = mallocx(size, 0);
  memset(p, 7, size);
  EXPECT(malloc_usable_size(p) == sallocx(p, 0) && sallocx(p, 0) >= nallocx(size, 0));
  p = rallocx(p, 2 * size, 0);
  p = realloc(p, 3 * size);  // into our heap
  EXPECT(p && static_cast<char*>(p)[size - 1] == 7 && malloc_usable_size(p) >= 3 * size);
  sdallocx(p, 3 * size, 0);
  p = malloc(size);
  EXPECT(malloc_usable_size(p) >= nallocx(size, 0) && nallocx(size, 0) >= size);
  free(p);
  EXPECT(errno == 0);
}

}  // namespace

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([] {
      for (int round = 0; round < 20; ++round)
        for (size_t size : {1, 24, 100, 5000, 20'000, 300'000, 5'000'000}) free_each_way(size);
    });
  for (std::thread& t : threads) t.join();

  // What Redis 7.4 does when it starts, and then ten times a second; here and there it asserts.
  unsigned arena = 0, cache = 0, bins = 0;
  EXPECT(read("arenas.create", &arena) == 0 && arena > 0);
  EXPECT(read("tcache.create", &cache) == 0);
  const int flags = static_cast<int>((arena + 1) << 20 | (cache + 2) << 8);
  const size_t before = allocated();
  void* mine = mallocx(1 << 20, flags);
  EXPECT(mine && malloc_usable_size(mine) >= 1 << 20);
  const size_t after = allocated();
  EXPECT(after - before >= 1 << 20 && after - before < 3 << 20);  // both heaps
  size_t page = 0, pages = 0, value = 0, bytes = 0;
  EXPECT(read("stats.arenas.4096.pmuzzy", &value) == 0);
  char name[100];
  snprintf(name, sizeof(name), "stats.arenas.%u.pactive", arena);
  EXPECT(read("arenas.page", &page) == 0 && read(name, &pages) == 0);
  snprintf(name, sizeof(name), "stats.arenas.%u.large.allocated", arena);
  EXPECT(read(name, &bytes) == 0 && bytes == malloc_usable_size(mine));
  EXPECT(page * pages >= bytes && page * pages < 2 * bytes);
  EXPECT(read("arenas.nbins", &bins) == 0 && bins > 10);
  for (unsigned bin = 0; bin < bins; ++bin) {
    uint32_t objects = 0;
    snprintf(name, sizeof(name), "arenas.bin.%u.size", bin);
    EXPECT(read(name, &value) == 0);
    snprintf(name, sizeof(name), "arenas.bin.%u.nregs", bin);
    EXPECT(read(name, &objects) == 0);
    snprintf(name, sizeof(name), "stats.arenas.4096.bins.%u.curregs", bin);
    EXPECT(read(name, &value) == 0);
    snprintf(name, sizeof(name), "stats.arenas.%u.bins.%u.curslabs", arena, bin);
    EXPECT(read(name, &value) == 0);
  }
  dallocx(mine, flags);
  EXPECT(mallctl("tcache.destroy", nullptr, nullptr, &cache, sizeof(cache)) == 0);
  char dirty[100];
  snprintf(dirty, sizeof(dirty), "stats.arenas.%u.pdirty", arena);
  allocated();
  EXPECT(read(dirty, &pages) == 0 && pages > 0);
  snprintf(name, sizeof(name), "arena.%u.purge", arena);
  EXPECT(mallctl(name, nullptr, nullptr, nullptr, 0) == 0);
  allocated();
  EXPECT(read(dirty, &pages) == 0 && pages == 0);

  // One figure, however it is asked for, and by how many.
  void* const much = mallocx(64 << 20, 0);
  threads.clear();
  const size_t total = allocated();
  EXPECT(total > 64 << 20);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([total] {
      for (int round = 0; round < 1000; ++round) EXPECT(allocated() < total + (16 << 20));
    });
  for (std::thread& t : threads) t.join();
  std::string document;
  malloc_stats_print([](void* to, const char* part) { *static_cast<std::string*>(to) += part; },
                     &document, "J");
  const size_t place = document.find("\"allocated\":");
  EXPECT(place != std::string::npos);
  EXPECT(strtoul(document.c_str() + place + 12, nullptr, 10) > 64 << 20);
  dallocx(much, 0);

  // A thread may be bound to an arena, for mallocx.
  unsigned arenas = 0, own = 0;
  size_t size = sizeof(own);
  EXPECT(read("arenas.narenas", &arenas) == 0 && arenas > arena);
  EXPECT(mallctl("thread.arena", &own, &size, &arena, sizeof(arena)) == 0 && own != arena);
  EXPECT(read("thread.arena", &own) == 0 && own == arena);
  EXPECT(freed_by_constructor);

  // Numbers of its own and of ours.
  size_t mib[7], length = 7, room = sizeof(value);
  EXPECT(mallctlnametomib("arenas.bin.0.size", mib, &length) == 0);
  mib[2] = 3;
  EXPECT(mallctlbymib(mib, length, &value, &room, nullptr, 0) == 0 && value > 16);
  length = 7;
  EXPECT(mallctlnametomib("stats.allocated", mib, &length) == 0 && length == 2);
  EXPECT(mallctlbymib(mib, length, &bytes, &room, nullptr, 0) == 0 && bytes > 0);

  // Of options and threads it would speak of a heap in which next to nothing is.
  bool flag = true;
  EXPECT(mallctl("background_thread", nullptr, nullptr, &flag, sizeof(flag)) == ENOENT);
  uint64_t* counter = nullptr;
  EXPECT(read("thread.allocatedp", &counter) == ENOENT);
  puts("ok");
}
