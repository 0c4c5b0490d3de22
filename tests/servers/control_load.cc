// SPDX-License-Identifier: Apache-2.0
// What happens in a process while clients of its control socket behave badly. Says `ready`, then
// does for each line of its input what the line asks, and prints what came of it:
//   fork SECONDS       the longest fork
//   allocate SECONDS   the longest allocation of blocks, by three threads
//   close              closes every descriptor above 2 and opens pipes at their numbers; how many
//                      of the pipes still work after a second
//   sparse             fills 120 MiB and frees nearly all of it: every huge page keeps an object.
//   Frees
//                      a mapping, too. How many objects stay
//   child              how many sockets and threads a forked child has
// The end of the input ends the program by exit().
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double longest_fork(double seconds) {
  double longest = 0;
  for (const auto start = Clock::now(); since(start) < seconds;) {
    const auto before = Clock::now();
    const pid_t child = fork();
    if (child == 0) _exit(0);
    longest = std::max(longest, since(before));
    waitpid(child, nullptr, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return longest;
}

// A heap of so many pages that its statistics fill any socket's buffer: objects of all sizes, of
// which nothing is touched.
void fill_heap() {
  for (int i = 0; i < 12000; ++i) {
    void* volatile kept = malloc(static_cast<size_t>(16 + i * 4099 % 200000));
    (void)kept;
  }
}

size_t leave_sparse_pages() {
  constexpr size_t kSize = 2000, kCount = (size_t{120} << 20) / kSize, kStays = 512,
                   kLarge = 8 << 20;
  std::vector<void*> objects(kCount);
  for (void*& object : objects) object = memset(malloc(kSize), 1, kSize);
  void* large = memset(malloc(kLarge), 1, kLarge);
  for (size_t i = 0; i < kCount; ++i)
    if (i % kStays != 0) free(objects[i]);
  free(large);
  return kCount / kStays;
}

double longest_allocation(double seconds) {
  std::atomic<double> longest{0};
  const auto allocate = [&] {
    double mine = 0;
    std::vector<void*> blocks(40);
    for (const auto start = Clock::now(); since(start) < seconds;) {
      for (size_t i = 0; i < blocks.size(); ++i) {
        const auto before = Clock::now();
        blocks[i] = malloc(300000 + i * 8192);
        mine = std::max(mine, since(before));
      }
      for (void* block : blocks) free(block);
    }
    for (double seen = longest; seen < mine && !longest.compare_exchange_weak(seen, mine);) {
    }
  };
  std::thread threads[] = {std::thread(allocate), std::thread(allocate), std::thread(allocate)};
  for (std::thread& thread : threads) thread.join();
  return longest;
}

int pipes_that_work_after_all_was_closed() {
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  constexpr int kPipes = 500;
  static int ends[kPipes][2];
  for (auto& both : ends)
    if (pipe(both) != 0) abort();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  int working = 0;
  for (auto& both : ends) {
    char byte = 0;
    working += write(both[1], "x", 1) == 1 && read(both[0], &byte, 1) == 1 && byte == 'x';
  }
  return working;
}

int entries(const char* folder, bool sockets_only) {
  DIR* dir = opendir(folder);
  int n = 0;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    struct stat status;
    const std::string path = std::string(folder) + "/" + entry->d_name;
    n += !sockets_only || (stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode));
  }
  closedir(dir);
  return n;
}

void look_from_child() {
  const pid_t child = fork();
  if (child == 0) {
    printf("%d %d\n", entries("/proc/self/fd", true), entries("/proc/self/task", false));
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace

int main() {
  fill_heap();
  puts("ready");
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof(line), stdin)) {
    const char* space = strchr(line, ' ');
    const double seconds = space ? atof(space + 1) : 0;
    if (strncmp(line, "fork", 4) == 0) printf("%.3f\n", longest_fork(seconds));
    if (strncmp(line, "allocate", 8) == 0) printf("%.3f\n", longest_allocation(seconds));
    if (strncmp(line, "close", 5) == 0) printf("%d\n", pipes_that_work_after_all_was_closed());
    if (strncmp(line, "sparse", 6) == 0) printf("%zu\n", leave_sparse_pages());
    if (strncmp(line, "child", 5) == 0) look_from_child();
    fflush(stdout);
  }
  exit(0);
}
