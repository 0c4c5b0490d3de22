// SPDX-License-Identifier: Apache-2.0
// Allocates, and ends in a way that runs no destructors of libraries.
//
//   unhandled_ends quick_exit | daemon     daemon: the one that goes on allocates as much again
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

constexpr int kObjects = 2000;

void allocate() {
  for (int i = 0; i < kObjects; ++i) {
    void* volatile object = malloc(100);  // or the compiler leaves both out
    free(object);
  }
}

}  // namespace

int main(int, char** argv) {
  allocate();
  if (strcmp(argv[1], "quick_exit") == 0) quick_exit(0);
  char folder[] = "/";
  if (chdir("/tmp") != 0 || daemon(0, 1) != 0) return 1;
  char now[100];
  if (getcwd(now, sizeof(now)) == nullptr || strcmp(now, folder) != 0 || getsid(0) != getpid())
    return 2;
  allocate();
  return 0;
}
