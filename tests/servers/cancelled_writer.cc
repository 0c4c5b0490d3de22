// SPDX-License-Identifier: Apache-2.0
// A thread that is to be cancelled allocates, so that under the recording library it writes its
// full buffers; then others do.
#include <pthread.h>

#include <cstdlib>
#include <thread>

namespace {

constexpr int kObjects = 100'000;

void allocate() {
  for (int i = 0; i < kObjects; ++i) {
    void* volatile object = malloc(100);  // or the compiler leaves both out
    free(object);
  }
}

void* allocate_cancelled(void* allocated) {
  pthread_cancel(pthread_self());
  allocate();
  *static_cast<bool*>(allocated) = true;
  pthread_testcancel();
  return nullptr;
}

}  // namespace

int main() {
  bool allocated = false;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, allocate_cancelled, &allocated) != 0) return 1;
  void* result = nullptr;
  pthread_join(thread, &result);
  std::thread(allocate).join();
  return allocated && result == PTHREAD_CANCELED ? 0 : 1;
}
