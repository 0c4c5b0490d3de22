// SPDX-License-Identifier: Apache-2.0
// Buffers above 1 MiB that grow until the system has to move them, shrink and are freed: every
// sample of the profile of it has died. Prints how many moved.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr size_t kMiB = 1024 * 1024;

// So that what lies before it cannot grow in place.
class Wall {
 public:
  Wall() : page_(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Wall() { munmap(page_, 4096); }
  Wall(const Wall&) = delete;
  Wall& operator=(const Wall&) = delete;

 private:
  void* page_;
};

}  // namespace

int main() {
  int moved = 0;
  // Those of the last rounds stay a while: what is free already must not be where they grow.
  constexpr int kStay = 100;
  void* stays[kStay] = {};
  for (int i = 0; i < 300; ++i) {
    free(stays[i % kStay]);
    void* grows = malloc(2 * kMiB);
    const Wall wall, another;
    void* neighbour = malloc(3 * kMiB);
    const void* volatile before = grows;
    grows = realloc(grows, 40 * kMiB);
    moved += grows != before;
    grows = realloc(grows, 5 * kMiB);
    stays[i % kStay] = grows;
    free(neighbour);
  }
  for (void* p : stays) free(p);
  sleep(4);  // what dies right before the end counts as killed by it
  printf("%d\n", moved);
  return moved > 0 ? 0 : 1;
}
