// SPDX-License-Identifier: Apache-2.0
// A thread that allocates past the last exit handler of any library, and a signal handler in it
// that allocates, too. Not in malloc's own locks: it takes another size, and of both sizes there is
// an object that keeps a span in use.
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include <cstdlib>

namespace {

constexpr int kObjects = 500'000;
constexpr size_t kSize = 100, kSizeInHandler = 1000;
constexpr size_t kRounds = 3;  // of destructors, before the one that allocates
pthread_key_t key;

void allocate(size_t size) {
  void* volatile object = malloc(size);  // or the compiler leaves both out
  free(object);
}

void destroy(void* round) {
  const auto past = reinterpret_cast<size_t>(round);
  if (past < kRounds) {
    pthread_setspecific(key, reinterpret_cast<void*>(past + 1));
    return;
  }
  for (int i = 0; i < kObjects; ++i) allocate(kSize);
}

void* end(void*) {
  allocate(kSize);
  pthread_setspecific(key, reinterpret_cast<void*>(1));
  return nullptr;
}

}  // namespace

int main() {
  void* const volatile kept[] = {malloc(kSize), malloc(kSizeInHandler)};
  pthread_key_create(&key, destroy);
  signal(SIGALRM, [](int) { allocate(kSizeInHandler); });
  pthread_t thread;
  if (pthread_create(&thread, nullptr, end, nullptr) != 0) return 1;
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  const itimerval often = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, nullptr);
  pthread_join(thread, nullptr);
  for (void* object : kept) free(object);
  return 0;
}
