// SPDX-License-Identifier: Apache-2.0
// Linked with the library, not preloaded: threads, a fork, an exception, glibc's own names.
// Prints the version of the library whose malloc it got, and what mallinfo2 knows of 8 MiB.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

extern "C" const char* llamalloc_version(void) __attribute__((weak));
extern "C" void* __libc_memalign(size_t, size_t);

namespace {

void fill_strings() {
  std::vector<std::string> strings;
  for (size_t i = 0; i < 10'000; ++i) strings.emplace_back(i % 300, 'x');
}

bool fails_as_it_should() {
  try {
    ::operator delete(::operator new(size_t{1} << 60));
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

int fork_and_allocate() {
  const pid_t child = fork();
  if (child == 0) {
    std::thread(fill_strings).join();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

int main() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back(fill_strings);
  for (std::thread& thread : threads) thread.join();
  const bool good = fails_as_it_should() && fork_and_allocate() == 0;
  free(__libc_memalign(256, 100));
  mallopt(M_MMAP_MAX, 3);
  void* volatile large = malloc(8 << 20);
  printf("%s %d %zu\n", llamalloc_version != nullptr ? llamalloc_version() : "none", good,
         mallinfo2().hblkhd >> 20);
  free(large);
  malloc_trim(0);
  return good ? 0 : 1;
}
