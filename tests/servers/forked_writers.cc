// SPDX-License-Identifier: Apache-2.0
// Forks, and in the child many threads allocate in step, so that under the recording library their
// buffers are full at the same time.
//
//   forked_writers FORKS
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 8;
constexpr int kObjects = 20'000;
pthread_barrier_t start;

void allocate() {
  pthread_barrier_wait(&start);
  for (int i = 0; i < kObjects; ++i) {
    void* volatile object = malloc(100);  // or the compiler leaves both out
    free(object);
  }
}

[[noreturn]] void be_child() {
  pthread_barrier_init(&start, nullptr, kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(allocate);
  for (std::thread& thread : threads) thread.join();
  exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 1); ++i) {
    const pid_t child = fork();
    if (child == 0) be_child();
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}
