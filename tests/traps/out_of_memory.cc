// SPDX-License-Identifier: Apache-2.0
// Runs out of memory again and again, by objects of every kind; each refusal is a null with ENOMEM
// or a bad_alloc, and after all is freed as much can be had as before.
#include <sys/resource.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>

namespace {

constexpr size_t kRoom = size_t{300} << 20;

struct Link {
  Link* next;
};

[[noreturn]] void fail(const char* what, size_t size) {
  fprintf(stderr, "%s (size %zu, errno %d)\n", what, size, errno);
  _exit(1);
}

Link* fill_by_malloc(size_t size, size_t& bytes) {
  Link* list = nullptr;
  errno = 0;
  while (auto* p = static_cast<Link*>(malloc(size))) {
    memset(static_cast<void*>(p), 1, size);
    p->next = list;
    list = p;
    bytes += size;
  }
  if (errno != ENOMEM) fail("malloc gave null without ENOMEM", size);
  errno = 0;
  if (calloc(1, size_t{4} << 30) != nullptr || errno != ENOMEM) fail("calloc beyond the limit", 0);
  // Until realloc of the last one fails too; it keeps its contents.
  if (list != nullptr) {
    Link* const next = list->next;
    errno = 0;
    if (realloc(static_cast<void*>(list), size_t{2} << 30) != nullptr || errno != ENOMEM)
      fail("realloc beyond the limit", size);
    if (list->next != next) fail("a failed realloc changed the object", size);
  }
  return list;
}

Link* fill_by_new(size_t size, size_t& bytes) {
  Link* list = nullptr;
  try {
    while (true) {
      auto* p = static_cast<Link*>(operator new(size));
      memset(static_cast<void*>(p), 1, size);
      p->next = list;
      list = p;
      bytes += size;
    }
  } catch (const std::bad_alloc&) {
  }
  return list;
}

void empty(Link* list, bool by_new) {
  while (list != nullptr) {
    Link* p = list;
    list = p->next;
    if (by_new)
      operator delete(p);
    else
      free(p);
  }
}

size_t address_space() {
  size_t pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%zu", &pages) != 1) fail("no /proc/self/statm", 0);
  fclose(file);
  return pages * 4096;
}

}  // namespace

int main() {
  free(malloc(100));
  const rlimit limit{address_space() + kRoom, address_space() + kRoom};
  setrlimit(RLIMIT_AS, &limit);
  size_t least = SIZE_MAX;
  for (int round = 0; round < 2; ++round)
    for (const size_t size :
         {size_t{200}, size_t{9000}, size_t{150'000}, size_t{900'000}, size_t{20'000'000}})
      for (const bool by_new : {false, true}) {
        size_t bytes = 0;
        empty(by_new ? fill_by_new(size, bytes) : fill_by_malloc(size, bytes), by_new);
        if (bytes < kRoom / 3) fail("memory did not come back: could have fewer bytes", bytes);
        if (bytes < least) least = bytes;
      }
  printf("at least %zu MiB of %zu each time\n", least >> 20, kRoom >> 20);
  return 0;
}
