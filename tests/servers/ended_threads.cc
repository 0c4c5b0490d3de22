// SPDX-License-Identifier: Apache-2.0
// Detached threads end, more than glibc keeps stacks of (40 MiB): those that end free memory of
// those before them, after all destructors. Prints for each kind of thread how many thread caches
// are in use when all have ended.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

extern "C" [[gnu::weak]] int llamalloc_get(const char*, void*, size_t*);

namespace {

constexpr size_t kStack = 8 << 20;
constexpr int kThreads = 30;
constexpr int kKeys = 40;  // glibc allocates room for those from the 32nd on, and frees it last

pthread_key_t keys[kKeys];

void allocate() {
  void* volatile p = malloc(100);
  free(p);
}

std::atomic<int> taken, begun;
pid_t ids[kThreads];
std::atomic<bool> may_end;

// All are there at once, so that each has a stack of its own.
void* wait_for_all(void*) {
  ids[taken++] = gettid();
  ++begun;
  while (!may_end) usleep(1000);
  return nullptr;
}

void* allocate_once(void*) {
  allocate();
  return wait_for_all(nullptr);
}

void* set_all_keys(void*) {
  for (const pthread_key_t key : keys) pthread_setspecific(key, keys);
  return wait_for_all(nullptr);
}

void run_and_end(const pthread_attr_t& attributes, void* (*kind)(void*)) {
  taken = begun = 0;
  may_end = false;
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, kind, nullptr) != 0) abort();
  }
  while (begun < kThreads) usleep(1000);
  may_end = true;
  for (const pid_t id : ids)
    while (tgkill(getpid(), id, 0) == 0) usleep(1000);
}

uint64_t caches() {
  uint64_t value = 0;
  size_t bytes = sizeof(value);
  const bool known =
      llamalloc_get != nullptr && llamalloc_get("thread_caches", &value, &bytes) == 0;
  return known ? value : 0;
}

}  // namespace

int main() {
  for (pthread_key_t& key : keys) pthread_key_create(&key, [](void*) { allocate(); });
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStack);
  allocate();
  for (auto* kind : {wait_for_all, allocate_once, set_all_keys}) {
    run_and_end(attributes, kind);
    std::printf("%llu ", static_cast<unsigned long long>(caches()));
  }
  std::puts("");
}
