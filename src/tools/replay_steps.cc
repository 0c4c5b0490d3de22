// SPDX-License-Identifier: Apache-2.0
#include "tools/replay_steps.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace llamalloc {
namespace {

constexpr char kReader[] = "llamalloc-simulate";
constexpr char kNoMemory[] = "no memory for the events";
constexpr char kCut[] = "replay a part: llamalloc trace cut";

// Becomes the reader, which stands beside this program.
[[noreturn]] void read_trace(const char* trace, int file) {
  char path[PATH_MAX + sizeof(kReader)] = {};
  const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);
  char* name = length > 0 ? strrchr(path, '/') + 1 : path;
  strcpy(name, kReader);
  char output[32];
  snprintf(output, sizeof(output), "/dev/fd/%d", file);
  const char* const words[] = {path, trace, "--steps", output, nullptr};
  const char* const environment[] = {nullptr};
  execve(path, const_cast<char**>(words), const_cast<char**>(environment));
  fprintf(stderr, "llamalloc-replay: %s cannot be started; install it beside this program\n", path);
  _exit(1);
}

}  // namespace

void stop_replay(int status, const char* what, const char* cure) {
  fprintf(stderr, "llamalloc-replay: %s; %s\n", what, cure);
  exit(status);
}

void* resident_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                 -1, 0);
  if (p == MAP_FAILED) stop_replay(1, kNoMemory, kCut);
  return p;
}

Steps load_steps(const char* trace) {
  const int file = memfd_create("steps", 0);
  if (file < 0) stop_replay(1, kNoMemory, "it needs Linux 3.17");
  const pid_t child = vfork();
  if (child == 0) read_trace(trace, file);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(1);
  const auto bytes = static_cast<size_t>(lseek(file, 0, SEEK_END));
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  if (data == MAP_FAILED) stop_replay(1, kNoMemory, kCut);
  const auto* header = static_cast<const StepsHeader*>(data);
  return {reinterpret_cast<const Step*>(header + 1), header->steps, header->slots, header->threads,
          header->duration};
}

}  // namespace llamalloc
