// SPDX-License-Identifier: Apache-2.0
// The main thread ends, a detached thread goes on: the files of /proc/self are empty from then on,
// and the process has no memory to those who ask by its number. Then code allocates that no sample
// has met before. The end of that thread is the end of the process.
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace {

bool main_thread_is_there() {
  std::ifstream maps("/proc/self/maps");
  return maps.get() != EOF;
}

}  // namespace

extern "C" [[gnu::noinline]] void allocate_without_main() {
  for (int i = 0; i < 20000; ++i) {
    void* volatile p = malloc(3000);
    if (i % 10 != 0) free(p);
  }
}

int main() {
  const auto go_on = [](void*) -> void* {
    while (main_thread_is_there()) usleep(1000);
    allocate_without_main();
    return nullptr;
  };
  pthread_t thread;
  if (pthread_create(&thread, nullptr, go_on, nullptr) != 0) return 1;
  pthread_detach(thread);
  pthread_exit(nullptr);
}
