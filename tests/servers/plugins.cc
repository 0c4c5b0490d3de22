// SPDX-License-Identifier: Apache-2.0
// Loads a plugin, allocates in it and unloads it, ROUNDS times, while a profile is recorded.
//   plugins replaced ROUNDS   the same path: large.so and small.so in turn, the file cut to nothing
//                             and written again where it lies
//   plugins new ROUNDS        a path of its own each time, deleted afterwards; prints how many
//                             mappings there are after half of the rounds and after all
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  _exit(1);
}

void copy(const char* from, const char* to) {
  static char buffer[1 << 22];
  const int source = open(from, O_RDONLY), target = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
  const ssize_t bytes = read(source, buffer, sizeof(buffer));
  usleep(200'000);  // the file is empty while the profile is written
  if (bytes <= 0 || write(target, buffer, static_cast<size_t>(bytes)) != bytes) fail("no copy");
  close(source);
  close(target);
}

void use(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW);
  if (plugin == nullptr) fail(dlerror());
  const auto make = reinterpret_cast<void* (*)(int)>(dlsym(plugin, "plug_make"));
  for (int i = 0; i < 200; ++i) free(make(1000 + i));
  usleep(250'000);
  dlclose(plugin);
}

int count_mappings() {
  int lines = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  for (int c = 0; (c = getc(maps)) != EOF;) lines += c == '\n';
  fclose(maps);
  return lines;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("plugins replaced|new ROUNDS");
  const bool is_new = strcmp(argv[1], "new") == 0;
  const int rounds = atoi(argv[2]);
  for (int round = 1; round <= rounds; ++round) {
    char path[64];
    snprintf(path, sizeof(path), "./live_%d.so", is_new ? round : 0);
    copy(is_new || round % 2 == 0 ? "small.so" : "large.so", path);
    use(path);
    if (is_new) unlink(path);
    if (is_new && (round == rounds / 2 || round == rounds)) printf("%d ", count_mappings());
  }
}
