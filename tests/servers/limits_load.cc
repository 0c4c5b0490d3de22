// SPDX-License-Identifier: Apache-2.0
// Leaves many huge pages sparse after a load that came and went: limits_load MIB SWINGS SECONDS
// [fork] Each swing fills MIB and frees all but one object in 512. Then it sleeps. Exit status 3:
// no memory. fork: a child does one more, and the parent waits for it.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kSize = 2000;
constexpr size_t kStays = 512;

char fill_of(size_t i) {
  return static_cast<char>(i | 1);
}

bool swing(std::vector<char*>& objects) {
  for (size_t i = 0; i < objects.size(); ++i) {
    if (objects[i] != nullptr) continue;
    objects[i] = static_cast<char*>(malloc(kSize));
    if (objects[i] == nullptr) return false;
    memset(objects[i], fill_of(i), kSize);
  }
  for (size_t i = 0; i < objects.size(); ++i)
    if (i % kStays != 0) free(objects[i]), objects[i] = nullptr;
  return true;
}

bool is_whole(const char* object, char fill) {
  for (size_t k = 0; k < kSize; ++k)
    if (object[k] != fill) return false;
  return true;
}

int wait_for(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  std::vector<char*> objects(strtoul(argv[1], nullptr, 10) * (1 << 20) / kSize);
  const auto swings = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (!swing(objects)) exit(3);
      usleep(1'500'000);
    }
  };
  swings(atoi(argv[2]));
  if (argc == 5) {
    sleep(3);  // until the parent is below its limit
    if (const pid_t child = fork()) return wait_for(child);
    swings(1);
  }
  puts("at rest");
  fflush(stdout);
  sleep(static_cast<unsigned>(atoi(argv[3])));
  for (size_t i = 0; i < objects.size(); i += kStays)
    if (!is_whole(objects[i], fill_of(i))) return 1;
}
