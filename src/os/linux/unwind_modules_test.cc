// SPDX-License-Identifier: Apache-2.0
// Modules that come and go: their rows must not outlive them. Plugins are compiled by the test.
#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "os/linux/eh_frame.h"
#include "os/linux/unwind_agreement.h"
#include "os/pages.h"
#include "os/symbols.h"

// The thread sanitizer does not see the locks of the dynamic loader.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:ld-linux-x86-64.so\n";
}

namespace llamalloc {
namespace {

using Callback = void (*)();

std::string join(std::initializer_list<std::string> parts) {
  std::string all;
  for (const std::string& part : parts) all.append(part);
  return all;
}

// Loads, calls back through the plugin, unloads. Returns where `call` was.
void* visit(const std::string& path) {
  void* plugin = dlopen(path.c_str(), RTLD_NOW);
  if (plugin == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  void* call = dlsym(plugin, "call");
  reinterpret_cast<void (*)(Callback)>(call)(check_here);
  EXPECT_EQ(dlclose(plugin), 0);
  return call;
}

class UnwindModules : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/llamalloc-unwind-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    wrong_before_ = agreement.wrong;
  }
  void TearDown() override { EXPECT_EQ(system(join({"rm -r ", folder_}).c_str()), 0); }

  // A shared object with `call(f)`, whose frame holds `bytes` more than another's, and nothing else
  // differs.
  std::string plugin(const std::string& name, int bytes, const std::string& flags) {
    return compile(name,
                   join({"void call(void (*f)(void)) {\n  volatile char memory[",
                         std::to_string(bytes), "];\n  memory[0] = 1; f(); memory[1] = 1; }\n"}),
                   flags);
  }
  std::string compile(const std::string& name, const std::string& code, const std::string& flags) {
    const std::string source = join({folder_, "/", name, ".c"});
    const std::string object = join({folder_, "/", name, ".so"});
    std::ofstream(source) << code;
    const std::string command = join({"cc -O2 -fPIC -shared ", flags, " -o ", object, " ", source});
    EXPECT_EQ(system(command.c_str()), 0) << command;
    return object;
  }

  // Two plugins come and go in turn, mostly at one place, and forget() is called between. The rows
  // of one must not serve for the other.
  template <typename Forget>
  void expect_own_rows(const std::string& flags, Forget&& forget) {
    const std::string small = plugin("small", 1000, flags);
    const std::string large = plugin("large", 3000, flags);
    int same_place = 0;
    for (int i = 0; i < 50; ++i) {
      void* before = visit(small);
      forget();
      same_place += before == visit(large);
      forget();
    }
    EXPECT_GT(same_place, 0);  // else the test shows nothing
    EXPECT_EQ(agreement.wrong, wrong_before_);
  }

  std::string folder_;
  int wrong_before_ = 0;
};

TEST_F(UnwindModules, ARowDoesNotOutliveItsModule) {
  expect_own_rows("-Wl,--build-id=sha1", [] {});
}

TEST_F(UnwindModules, WithoutABuildIdClearingTheCacheIsEnough) {
  expect_own_rows("-Wl,--build-id=none", [] { unwind_cache_clear(); });
}

// Who samples without learning has nobody else to look.
TEST_F(UnwindModules, WithoutABuildIdASymboliserThatLooksIsEnough) {
  MetadataArena arena(system_pages);
  Symboliser names(arena, system_pages);
  expect_own_rows("-Wl,--build-id=none", [&] {
    char name[100];
    names.frame_name(reinterpret_cast<uintptr_t>(&system) + 1, name, sizeof(name));
  });
}

TEST_F(UnwindModules, ThreadsUnwindWhileOthersLoadAndUnload) {
  std::vector<std::string> paths;
  for (int i = 0; i < 4; ++i)
    paths.push_back(plugin(join({"p", std::to_string(i)}), 1000 + 512 * i, "-Wl,--build-id=sha1"));
  const int before = agreement.captures;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) visit(paths[(t + i) % paths.size()]);
    });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([] {
      std::vector<int> values(3000);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * 7919 % 3001);
      std::sort(values.begin(), values.end(), [](int a, int b) { return check_here(), a < b; });
    });
  for (auto& thread : threads) thread.join();
  printf("  %d captures between loads and unloads\n", agreement.captures - before);
  EXPECT_GT(agreement.captures - before, 5000);
  EXPECT_EQ(agreement.wrong, wrong_before_);
}

StackSnapshot plugin_snapshot;
char plugin_stack[16 * 1024];
[[gnu::noinline]] void snapshot_here() {
  const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  EXPECT_TRUE(take_snapshot(caller, plugin_stack, sizeof(plugin_stack), &plugin_snapshot));
}

TEST_F(UnwindModules, ASnapshotMayOutliveItsModules) {
  const std::string path = plugin("brief", 1000, "-Wl,--build-id=sha1");
  void* handle = dlopen(path.c_str(), RTLD_NOW);
  ASSERT_NE(handle, nullptr);
  reinterpret_cast<void (*)(Callback)>(dlsym(handle, "call"))(snapshot_here);
  StackTrace loaded, later;
  unwind_snapshot(plugin_snapshot, &loaded);
  EXPECT_FALSE(loaded.truncated);
  dlclose(handle);
  unwind_snapshot(plugin_snapshot, &later);
  EXPECT_EQ(later.depth, 1);
  EXPECT_TRUE(later.truncated);
  std::atomic<bool> done{false};
  std::thread loader([&] {
    for (int i = 0; i < 2000; ++i) dlclose(dlopen(path.c_str(), RTLD_NOW));
    done = true;
  });
  int whole = 0, cut = 0, looks = 0;
  for (; !done; ++looks) {
    unwind_cache_clear();  // so that the tables are read
    unwind_snapshot(plugin_snapshot, &later);
    whole += later == loaded;
    cut += later.depth == 1;
  }
  loader.join();
  printf("  %d whole, %d cut short\n", whole, cut);
  EXPECT_EQ(whole + cut, looks);
}

// Lazy binding runs the resolver of an indirect function under the linkage table, whose rows are
// expressions, and the dynamic loader's trampoline, whose frame hangs on rbx.
TEST_F(UnwindModules, AgreesUnderTheDynamicLoader) {
  const std::string path = compile("indirect",
                                   "void (*hook)(void);\n"
                                   "static void nothing(void) {}\n"
                                   "static void* resolve(void) { if (hook) hook();\n"
                                   "  return (void*)nothing; }\n"
                                   "void target(void) __attribute__((ifunc(\"resolve\")));\n"
                                   "void call(void (*f)(void)) { hook = f; target();\n"
                                   "  __asm__ volatile(\"\"); }\n",
                                   "-Wl,-z,lazy");
  const int captures = agreement.captures, truncated = agreement.truncated;
  void* plugin = dlopen(path.c_str(), RTLD_LAZY);
  ASSERT_NE(plugin, nullptr) << dlerror();
  reinterpret_cast<void (*)(Callback)>(dlsym(plugin, "call"))(check_here);
  EXPECT_EQ(agreement.captures - captures, 1);
  EXPECT_EQ(agreement.wrong, wrong_before_);
  EXPECT_EQ(agreement.truncated, truncated);
  dlclose(plugin);
}

// Where there is no build-id, all sizes may be those of the build before, while functions moved.
TEST_F(UnwindModules, ABuildWithoutBuildIdIsKnownByWhereFunctionsLie) {
  uint64_t builds[2];
  uintptr_t places[2];
  for (int i = 0; i < 2; ++i) {
    const std::string code = join({"void call(void (*f)(void)) { f(); __asm__ volatile(\".skip ",
                                   std::to_string(1 + 64 * i), ", 0x90\"); }\n",
                                   "void second(void (*f)(void)) { f(); __asm__(\"\"); }\n"});
    void* handle = dlopen(compile("p", code, "-Wl,--build-id=none").c_str(), RTLD_NOW);
    ASSERT_NE(handle, nullptr);
    const auto second = reinterpret_cast<uintptr_t>(dlsym(handle, "second"));
    UnwindModule module;
    ASSERT_TRUE(find_unwind_module(second, &module));
    builds[i] = module.build;
    places[i] = second - module.start;
    dlclose(handle);
  }
  EXPECT_NE(places[0], places[1]);
  EXPECT_NE(builds[0], builds[1]);
}

TEST_F(UnwindModules, IdentityFollowsTheBuildId) {
  uint64_t identities[2];
  for (int i = 0; i < 2; ++i) {
    void* handle = dlopen(plugin("p", 1000 + i * 512, "-Wl,--build-id=sha1").c_str(), RTLD_NOW);
    ASSERT_NE(handle, nullptr);
    UnwindModule module;
    ASSERT_TRUE(find_unwind_module(reinterpret_cast<uintptr_t>(dlsym(handle, "call")), &module));
    identities[i] = module.identity;
    EXPECT_EQ(module_identity(module), module.identity);
    dlclose(handle);
  }
  EXPECT_NE(identities[0], identities[1]);
}

}  // namespace
}  // namespace llamalloc
