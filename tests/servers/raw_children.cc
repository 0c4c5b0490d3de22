// SPDX-License-Identifier: Apache-2.0
// Allocates, as does a child that no fork handler knows of; then allocates more.
//
//   raw_children _Fork | clone | shared     shared: the child has its parent's memory, not a copy
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

constexpr int kObjects = 20'000;

void allocate() {
  for (int i = 0; i < kObjects; ++i) {
    void* volatile object = malloc(32 + static_cast<size_t>(i % 100));
    free(object);
  }
}

int be_child(void*) {
  allocate();
  _exit(0);
}

pid_t child_by(const char* way) {
  alignas(16) static char stack[256 * 1024];
  if (strcmp(way, "shared") == 0)
    return clone(be_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
  const auto child = strcmp(way, "_Fork") == 0
                         ? _Fork()
                         : static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) be_child(nullptr);
  return child;
}

}  // namespace

int main(int, char** argv) {
  allocate();
  const pid_t child = child_by(argv[1]);
  allocate();
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return 1;
  allocate();
  return 0;
}
