// SPDX-License-Identifier: Apache-2.0
// Loads of survivors, which are kept, and temporaries, which die with their generation; for
// learning_test.py and learned_file_test.py.
//   apart sites|callers SECONDS GENERATIONS   until so many in a row lie apart; prints how many
//                                             temporaries lay in huge pages of survivors in the
//                                             first and in the last generation
//   work MILLISECONDS      ends with exit status 3
//   serve                  until stdin ends; says "ready"
//   fork N GENERATIONS     so many of the parent, then a few of it and of N children
//   connections N          so many children, one after another, each of a few objects
//   exec MILLISECONDS      a forked child that becomes `work`
//   threads N MILLISECONDS
//   freed MILLISECONDS     frees all survivors, then ends
//   fill MEBIBYTES         of small objects at full speed, of which none is freed
//   pinner MILLISECONDS    large temporaries, and some 5 KiB a second that stay
//   phases MILLISECONDS    frees all survivors, again and again
//   mirror PLUGIN PLUGIN LOADS   survivors from the first plugin, temporaries from the second, at
//                                the same address; until each load has seen them apart
//   hosted PLUGIN MILLISECONDS   survivors and temporaries from two functions of a plugin
//   jit CALLS              calls malloc from an address of its own each time
//   paths CALLS            calls malloc by another path through the code each time
// The last two print: CPU seconds of the worker, resident KiB at the end.
#include <dirent.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

constexpr size_t kSize = 200;
constexpr int kTemporaries = 2000, kSurvivors = 200;  // of a generation
constexpr int kMostKept = 1 << 20;
constexpr auto kPause = std::chrono::milliseconds(10);

using Clock = std::chrono::steady_clock;
// Another build of the program: what stands in front of the allocating functions moves them, and
// one of them has changed itself (LEARNED_LOAD_BUILD 1, 2: other sizes).
#ifdef LEARNED_LOAD_BUILD
[[gnu::used, gnu::noinline]] double in_front(double x, const char* text) {
  for (int i = 0; i < 10 * LEARNED_LOAD_BUILD; ++i) x = x * atof(text) + i;
  return x;
}
#endif

using Make = void* (*)(size_t);

[[noreturn]] void fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  _exit(1);
}

struct Load {
  void* survivors[kSurvivors];
  void* temporaries[kTemporaries];
  void** kept = static_cast<void**>(mmap(nullptr, kMostKept * sizeof(void*), PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  int count = 0;

  void end_generation() {
    for (void* p : temporaries) free(p);
    for (void* p : survivors) keep(p);
  }
  void keep(void* p) {
    if (count < kMostKept) kept[count++] = p;
  }
  void free_kept() {
    while (count > 0) free(kept[--count]);
  }
};

// Temporaries in a huge page of a survivor, of one generation.
int count_shared(const Load& load) {
  const auto page_of = [](const void* p) { return reinterpret_cast<uintptr_t>(p) >> 21; };
  int shared = 0;
  for (const void* temporary : load.temporaries) {
    bool any = false;
    for (const void* survivor : load.survivors) any |= page_of(survivor) == page_of(temporary);
    shared += any;
  }
  return shared;
}

[[gnu::noinline]] void allocate_by_sites(Load& load) {
  for (int i = 0, s = 0; i < kTemporaries; ++i) {
    if (i % (kTemporaries / kSurvivors) == 0) load.survivors[s++] = malloc(kSize);
    load.temporaries[i] = malloc(kSize);
  }
}

// As much is alive all the time: the end of a load that falls is not counted.
void take_turns(Load& load) {
  for (void*& p : load.temporaries) {
    free(p);
    p = malloc(kSize);
  }
  for (int i = 0; i < kSurvivors; ++i) load.keep(malloc(kSize));
  std::this_thread::sleep_for(kPause);
}

[[gnu::noinline]] void* wrap(size_t size) {
  void* p = malloc(size);
  asm volatile("" ::"r"(p) : "memory");
  return p;
}
[[gnu::noinline]] void make_survivor(Load& load, int i) {
  load.survivors[i] = wrap(kSize);
}
[[gnu::noinline]] void make_temporary(Load& load, int i) {
#ifdef LEARNED_LOAD_BUILD
  asm volatile("nop; nop; nop");
#endif
  load.temporaries[i] = wrap(kSize);
}
[[gnu::noinline]] void allocate_by_callers(Load& load) {
  for (int i = 0, s = 0; i < kTemporaries; ++i) {
    if (i % (kTemporaries / kSurvivors) == 0) make_survivor(load, s++);
    make_temporary(load, i);
  }
}

using Allocate = void (*)(Load&);

int generation(Load& load, Allocate allocate) {
  allocate(load);
  const int shared = count_shared(load);
  load.end_generation();
  std::this_thread::sleep_for(kPause);
  return shared;
}

Clock::time_point in(const char* milliseconds) {
  return Clock::now() + std::chrono::milliseconds(atoi(milliseconds));
}

void work_until(Load& load, Clock::time_point end) {
  do generation(load, allocate_by_sites);
  while (Clock::now() < end);
}

Load& one_load() {
  static Load load;
  return load;
}

int run_apart(char** words) {
  const Allocate allocate =
      strcmp(words[0], "sites") == 0 ? allocate_by_sites : allocate_by_callers;
  const auto end = Clock::now() + std::chrono::seconds(atoi(words[1]));
  const int first = generation(one_load(), allocate);
  int last = first;
  for (int apart = last == 0; apart < atoi(words[2]) && Clock::now() < end;) {
    last = generation(one_load(), allocate);
    apart = last == 0 ? apart + 1 : 0;
  }
  printf("%d %d\n", first, last);
  return 0;
}

int run_hosted(char** words) {
  void* const plugin = dlopen(words[0], RTLD_NOW);
  if (plugin == nullptr) fail(dlerror());
  const auto temporary = reinterpret_cast<Make>(dlsym(plugin, "make_temporary"));
  const auto survivor = reinterpret_cast<Make>(dlsym(plugin, "make_survivor"));
  if (temporary == nullptr || survivor == nullptr) fail("not a plugin of two functions");
  Load& load = one_load();
  const auto end = in(words[1]);
  do {
    for (void*& p : load.survivors) p = survivor(kSize);
    for (void*& p : load.temporaries) p = temporary(kSize);
    load.end_generation();
  } while (Clock::now() < end);
  return 0;
}

int run_work(char** words) {
  work_until(one_load(), in(words[0]));
  puts("worked");
  return 3;
}

int run_serve(char**) {
  std::thread([] { work_until(one_load(), Clock::now() + std::chrono::hours(1)); }).detach();
  puts("ready");
  fflush(stdout);
  while (getchar() != EOF) continue;
  return 0;
}

void wait_for_all() {
  int status;
  while (wait(&status) > 0)
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3))
      fail("a child did not end well");
}

int run_fork(char** words) {
  constexpr int kFew = 5;
  for (int i = 0; i < atoi(words[1]); ++i) take_turns(one_load());
  bool is_child = false;
  for (int i = 0; i < atoi(words[0]) && !is_child; ++i) is_child = fork() == 0;
  for (int i = 0; i < kFew; ++i) take_turns(one_load());
  if (is_child) exit(0);
  wait_for_all();
  puts("worked");
  return 0;
}

int run_connections(char** words) {
  for (int i = 0; i < atoi(words[0]); ++i) {
    if (fork() == 0) {
      for (int k = 0; k < 200; ++k) {
        void* p = malloc(kSize);
        asm volatile("" ::"r"(p) : "memory");
        free(p);
      }
      exit(0);
    }
    wait_for_all();
  }
  puts("worked");
  return 0;
}

int run_exec(char** words) {
  work_until(one_load(), Clock::now());
  if (fork() == 0) {
    execl("/proc/self/exe", "learned_load", "work", words[0], nullptr);
    _exit(1);
  }
  wait_for_all();
  return 0;
}

int run_threads(char** words) {
  const int count = atoi(words[0]);
  auto* threads = new std::thread[count];
  for (int i = 0; i < count; ++i)
    threads[i] = std::thread([end = in(words[1])] { work_until(*new Load, end); });
  for (int i = 0; i < count; ++i) threads[i].join();
  delete[] threads;
  puts("worked");
  return 0;
}

int run_freed(char** words) {
  work_until(one_load(), in(words[0]));
  one_load().free_kept();
  puts("freed");
  return 0;
}

// Large temporaries, and a few bytes a second that stay.
int run_pinner(char** words) {
  for (const auto end = in(words[0]); Clock::now() < end;) {
    for (int i = 0; i < 20; ++i) free(wrap(60000));
    void* p = malloc(48);
    asm volatile("" ::"r"(p) : "memory");
    one_load().kept[one_load().count++] = p;
    std::this_thread::sleep_for(kPause);
  }
  puts("worked");
  return 0;
}

int run_phases(char** words) {
  for (const auto end = in(words[0]); Clock::now() < end;) {
    work_until(one_load(), Clock::now() + std::chrono::milliseconds(300));
    one_load().free_kept();
  }
  puts("worked");
  return 0;
}

// ----- Plugins -----

// Its function is at `at`, unless that is null. Something may lie there for a moment.
Make open_plugin(const char* path, Make at, void** handle) {
  for (int tries = 0; tries < 500; ++tries) {
    *handle = dlopen(path, RTLD_NOW);
    if (*handle == nullptr) fail(dlerror());
    const Make make = reinterpret_cast<Make>(dlsym(*handle, "make"));
    if (at == nullptr || make == at) return make;
    dlclose(*handle);
    std::this_thread::sleep_for(kPause);
  }
  fail("at another address");
}

// The other kind comes from the program itself.
[[gnu::noinline]] void allocate_by_plugin(Load& load, Make make, bool survivors) {
  for (int i = 0, s = 0; i < kTemporaries; ++i) {
    if (i % (kTemporaries / kSurvivors) == 0)
      load.survivors[s++] = survivors ? make(kSize) : malloc(kSize);
    load.temporaries[i] = survivors ? malloc(kSize) : make(kSize);
  }
}

int run_mirror(char** words) {
  Make at = nullptr;
  for (int i = 0; i < atoi(words[2]); ++i) {
    const auto end = Clock::now() + std::chrono::seconds(40);
    void* handle;
    const Make make = at = open_plugin(words[i % 2], at, &handle);
    for (int shared = 1; shared != 0;) {
      allocate_by_plugin(one_load(), make, i % 2 == 0);
      shared = count_shared(one_load());
      one_load().end_generation();
      std::this_thread::sleep_for(kPause);
      if (Clock::now() > end) fail("not apart");
    }
    dlclose(handle);
  }
  puts("apart");
  return 0;
}

// ----- Code made at run time -----

// sub $8, %rsp; mov $malloc, %rax; call *%rax; add $8, %rsp; ret
char* write_stub(char* at) {
  const Make target = malloc;
  memcpy(at, "\x48\x83\xec\x08\x48\xb8", 6);
  memcpy(at + 6, &target, sizeof(target));
  memcpy(at + 14, "\xff\xd0\x48\x83\xc4\x08\xc3", 7);
  return at + 32;
}

// ----- Contexts without end -----

// User and system time, fields 14 and 15 of the line; the name, field 2, stands in parentheses.
double seconds_in(const char* line) {
  unsigned long user = 0, system = 0;
  sscanf(strrchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
         &system);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Of the library's thread.
double worker_seconds() {
  double sum = 0;
  DIR* threads = opendir("/proc/self/task");
  while (const dirent* thread = readdir(threads)) {
    char path[300], line[512];
    snprintf(path, sizeof(path), "/proc/self/task/%s/stat", thread->d_name);
    FILE* file = thread->d_name[0] == '.' ? nullptr : fopen(path, "r");
    if (file == nullptr) continue;
    if (fgets(line, sizeof(line), file) != nullptr && strstr(line, "(llamalloc)") != nullptr)
      sum += seconds_in(line);
    fclose(file);
  }
  closedir(threads);
  return sum;
}

long resident_kib() {
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%*d %ld", &pages) != 1) fail("no statm");
  fclose(file);
  return pages * 4;
}

constexpr long kAtOnce = 65536;  // calls, then the worker has its turn

void rest_and_report() {
  std::this_thread::sleep_for(std::chrono::seconds(1));
  one_load().free_kept();
  printf("%.2f %ld\n", worker_seconds(), resident_kib());
}

void use(void* p, bool survives) {
  if (survives && one_load().count < kMostKept)
    one_load().kept[one_load().count++] = p;
  else
    free(p);
}

int run_jit(char** words) {
  auto* code = static_cast<char*>(mmap(nullptr, static_cast<size_t>(atol(words[0])) * 32,
                                       PROT_READ | PROT_WRITE | PROT_EXEC,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (code == MAP_FAILED) fail("no memory for code");
  char* const all = code;
  for (long i = 0; i < atol(words[0]); ++i) {
    Make stub;
    memcpy(&stub, &code, sizeof(stub));
    code = write_stub(code);
    use(stub(kSize), i % 16 == 0);
    if (i % kAtOnce == 0) std::this_thread::sleep_for(kPause);
  }
  munmap(all, static_cast<size_t>(atol(words[0])) * 32);
  rest_and_report();
  return 0;
}

constexpr int kPathLength = 40;

// The bits of `path` say which of two calls leads on.
[[gnu::noinline]] void* walk(uint64_t path, int left) {
  void* p;
  if (left == 0) return malloc(kSize);
  if (path & 1) {
    p = walk(path >> 1, left - 1);
    asm volatile("# one" ::"r"(p) : "memory");
  } else {
    p = walk(path >> 1, left - 1);
    asm volatile("# other" ::"r"(p) : "memory");
  }
  asm volatile("" ::"r"(p) : "memory");
  return p;
}

int run_paths(char** words) {
  uint64_t random = 88172645463325252;
  for (long i = 0; i < atol(words[0]); ++i) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    use(walk(random, kPathLength), i % 16 == 0);
    if (i % kAtOnce == 0) std::this_thread::sleep_for(kPause);
  }
  rest_and_report();
  return 0;
}

int run_fill(char** words) {
  for (long i = 0; i < (atol(words[0]) << 20) / 64; ++i) {
    void* p = malloc(64);
    asm volatile("" ::"r"(p) : "memory");
  }
  return 0;
}

struct Mode {
  const char* name;
  int words;
  int (*run)(char** words);
};
constexpr Mode kModes[] = {
    {"apart", 3, run_apart},
    {"work", 1, run_work},
    {"serve", 0, run_serve},
    {"hosted", 2, run_hosted},
    {"fork", 2, run_fork},
    {"exec", 1, run_exec},
    {"connections", 1, run_connections},
    {"threads", 2, run_threads},
    {"freed", 1, run_freed},
    {"phases", 1, run_phases},
    {"mirror", 3, run_mirror},
    {"pinner", 1, run_pinner},
    {"jit", 1, run_jit},
    {"paths", 1, run_paths},
    {"fill", 1, run_fill},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Mode& mode : kModes)
    if (argc == mode.words + 2 && strcmp(argv[1], mode.name) == 0) return mode.run(argv + 2);
  fail("what?");
}
