// SPDX-License-Identifier: Apache-2.0
#include "os/symbols.h"

#include <dlfcn.h>
#include <search.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/code_key.h"
#include "os/fake/answered_calls.h"
#include "os/fake/fake_pages.h"
#include "os/unwind.h"

namespace llamalloc_symbols_test {
// Names whose mangling is known.
[[gnu::noinline]] int global_function(int a) {
  asm volatile("");
  return a + 1;
}
namespace {
[[gnu::noinline]] int hidden_function(int a) {
  asm volatile("");
  return a + 2;
}
}  // namespace
[[gnu::noinline, gnu::weak]] int weak_function(int a) {
  asm volatile("");
  return a + 3;
}
extern "C" {
[[gnu::noinline]] int plain_second(int a) noexcept {
  asm volatile("");
  return a + 4;
}
[[gnu::alias("plain_second")]] int plain_first(int a) noexcept;
[[gnu::alias("plain_second"), gnu::weak]] int a_weak_alias(int a) noexcept;
}
}  // namespace llamalloc_symbols_test

namespace llamalloc {
namespace {

using namespace llamalloc_symbols_test;

std::string join(std::initializer_list<std::string> parts) {
  std::string all;
  for (const std::string& part : parts) all.append(part);
  return all;
}

class SymboliserTest : public ::testing::Test {
 protected:
  std::string name(uintptr_t return_address) {
    char out[512];
    const size_t length = symboliser_.frame_name(return_address, out, sizeof(out));
    EXPECT_EQ(length, strlen(out));
    return out;
  }
  template <typename Function>
  std::string name_of(Function* function) {
    return name(reinterpret_cast<uintptr_t>(function) + 1);
  }

  MetadataArena arena_{system_pages};
  FakePages system_;
  Symboliser symboliser_{arena_, system_};
};

TEST_F(SymboliserTest, NamesOwnFunctions) {
  EXPECT_EQ(name_of(&global_function), "_ZN22llamalloc_symbols_test15global_functionEi");
  EXPECT_EQ(name_of(&hidden_function),
            "_ZN22llamalloc_symbols_test12_GLOBAL__N_115hidden_functionEi");
  EXPECT_EQ(name_of(&weak_function), "_ZN22llamalloc_symbols_test13weak_functionEi");
}

TEST_F(SymboliserTest, AReturnAddressAfterTheLastInstructionIsStillInside) {
  const std::string first = name_of(&global_function);
  const uintptr_t start = reinterpret_cast<uintptr_t>(&global_function);
  EXPECT_NE(name(start), first);  // the instruction before it is another function's
  EXPECT_EQ(name(start + 2), first);
}

TEST_F(SymboliserTest, GlobalComesBeforeWeakThenTheNamesOrder) {
  EXPECT_EQ(name_of(&plain_second), "plain_first");
}

TEST_F(SymboliserTest, NamesTheCLibraryByItsDynamicSymbols) {
  EXPECT_EQ(name_of(&lfind), "lfind");
  EXPECT_EQ(name_of(&insque), "insque");
}

TEST_F(SymboliserTest, NamesWhereNoModuleIs) {
  EXPECT_EQ(name(0x1000), "?");
  EXPECT_EQ(name(0), "?");
  EXPECT_EQ(name(reinterpret_cast<uintptr_t>(&arena_)), "?");
  ModuleInfo info;
  EXPECT_FALSE(symboliser_.module_of(0x1000, &info));
}

TEST_F(SymboliserTest, KnowsWhatNumbersTheFramesOfAModule) {
  for (const void* function :
       {reinterpret_cast<const void*>(&global_function), reinterpret_cast<const void*>(&qsort)}) {
    const uintptr_t pc = reinterpret_cast<uintptr_t>(function) + 1;
    ModuleInfo info;
    ASSERT_TRUE(symboliser_.module_of(pc, &info));
    EXPECT_EQ(code_key(info.build, pc - info.low), code_of(pc));
  }
}

TEST_F(SymboliserTest, CutsToTheRoom) {
  char out[8];
  memset(out, 'x', sizeof(out));
  const uintptr_t pc = reinterpret_cast<uintptr_t>(&global_function) + 1;
  EXPECT_EQ(symboliser_.frame_name(pc, out, 5), 4u);
  EXPECT_STREQ(out, "_ZN2");
  EXPECT_EQ(out[5], 'x');
  EXPECT_EQ(symboliser_.frame_name(pc, out, 1), 0u);
  EXPECT_EQ(symboliser_.frame_name(pc, out + 7, 0), 0u);
  EXPECT_EQ(out[7], 'x');
}

TEST_F(SymboliserTest, KnowsTheVdso) {
  const uintptr_t start = getauxval(AT_SYSINFO_EHDR);
  void* clock = dlsym(dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD), "__vdso_clock_gettime");
  if (start == 0 || clock == nullptr) GTEST_SKIP() << "no vDSO";
  EXPECT_NE(name_of(clock).find("clock_gettime"), std::string::npos) << name_of(clock);
  ModuleInfo info;
  EXPECT_TRUE(symboliser_.module_of(reinterpret_cast<uintptr_t>(clock) + 1, &info));
  EXPECT_STREQ(info.path, "linux-vdso.so.1");
}

std::string command_output(const std::string& command) {
  std::string text;
  char line[512];
  FILE* pipe = popen(command.c_str(), "r");
  while (pipe != nullptr && fgets(line, sizeof(line), pipe) != nullptr) text.append(line);
  if (pipe != nullptr) pclose(pipe);
  return text;
}

TEST_F(SymboliserTest, BuildIdsAreThoseOfReadelf) {
  for (const uintptr_t pc : {reinterpret_cast<uintptr_t>(&global_function) + 1,
                             reinterpret_cast<uintptr_t>(&lfind) + 1}) {
    ModuleInfo info;
    ASSERT_TRUE(symboliser_.module_of(pc, &info));
    std::string id;
    for (int i = 0; i < info.build_id_bytes; ++i) {
      char byte[3];
      snprintf(byte, sizeof(byte), "%02x", info.build_id[i]);
      id.append(byte);
    }
    EXPECT_EQ(info.path[0], '/');
    const std::string notes = command_output(join({"readelf -n ", info.path, " 2>&1"}));
    const size_t at = notes.find("Build ID: ");
    ASSERT_NE(at, std::string::npos) << notes;
    EXPECT_EQ(id, notes.substr(at + 10, notes.find('\n', at) - at - 10));
  }
}

// The mapping that the kernel lists around the address.
TEST_F(SymboliserTest, ModulesLieWhereTheKernelSays) {
  const uintptr_t pc = reinterpret_cast<uintptr_t>(&lfind) + 1;
  ModuleInfo info;
  ASSERT_TRUE(symboliser_.module_of(pc, &info));
  std::ifstream maps("/proc/self/maps");
  std::string line;
  bool found = false;
  while (std::getline(maps, line)) {
    unsigned long start, limit, offset;
    char flags[8], path[512] = "";
    if (sscanf(line.c_str(), "%lx-%lx %7s %lx %*s %*s %511s", &start, &limit, flags, &offset,
               path) < 4)
      continue;
    if (pc < start || pc >= limit) continue;
    found = true;
    EXPECT_EQ(info.start, start);
    EXPECT_EQ(info.limit, limit);
    EXPECT_EQ(info.file_offset, offset);
    struct stat ours, theirs;
    ASSERT_EQ(stat(info.path, &ours), 0);
    ASSERT_EQ(stat(path, &theirs), 0);
    EXPECT_EQ(ours.st_ino, theirs.st_ino);
  }
  EXPECT_TRUE(found);
}

class SymboliserPlugins : public SymboliserTest {
 protected:
  void SetUp() override {
    char name[] = "/tmp/llamalloc-symbols-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { shell(join({"rm -r ", folder_})); }
  void shell(const std::string& command) { EXPECT_EQ(system(command.c_str()), 0) << command; }

  // A shared object with two functions, one of them static, reached through `inner`.
  std::string plugin(const std::string& name, const std::string& function) {
    const std::string source = join({folder_, "/", name, ".c"});
    const std::string object = join({folder_, "/", name, ".so"});
    std::ofstream(source) << "static int __attribute__((noinline)) hidden_" << function
                          << "(int a) { __asm__ volatile(\"\"); return a + 1; }\n"
                          << "int " << function << "(int a) { return hidden_" << function
                          << "(a) + 1; }\n"
                          << "void* inner(void) { return (void*)hidden_" << function << "; }\n";
    shell(join({"cc -O2 -fPIC -shared -Wl,--build-id=sha1 -o ", object, " ", source}));
    return object;
  }
  void* load(const std::string& path) {
    void* handle = dlopen(path.c_str(), RTLD_NOW);
    EXPECT_NE(handle, nullptr) << path;
    return handle;
  }
  void* hidden(void* handle) { return reinterpret_cast<void* (*)()>(dlsym(handle, "inner"))(); }

  std::string folder_;
};

std::string hexadecimal(uintptr_t value) {
  char text[32];
  snprintf(text, sizeof(text), "%lx", value);
  return text;
}
uintptr_t base_of(void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
}

TEST_F(SymboliserPlugins, ModulesLoadedLaterAreNamed) {
  EXPECT_EQ(name_of(&plain_second), "plain_first");  // the list is read before
  void* handle = load(plugin("later", "shown"));
  EXPECT_EQ(name_of(hidden(handle)), "hidden_shown");
  EXPECT_EQ(name_of(dlsym(handle, "shown")), "shown");
  dlclose(handle);
}

TEST_F(SymboliserPlugins, AStrippedModuleGivesFunctionStarts) {
  const std::string path = plugin("bare", "shown");
  const std::string renamed = join({folder_, "/od d\xc3\xa9.so"});
  shell(join({"strip ", path, " && mv ", path, " '", renamed, "'"}));
  void* handle = load(renamed);
  void* function = hidden(handle);
  const uintptr_t start = reinterpret_cast<uintptr_t>(function);
  const std::string expected = join({"?od_d__.so+0x", hexadecimal(start - base_of(function))});
  EXPECT_EQ(name(start + 1), expected);
  EXPECT_EQ(name(start + 3), expected);
  EXPECT_EQ(name_of(dlsym(handle, "shown")), "shown");
  dlclose(handle);
}

TEST_F(SymboliserPlugins, AStrippedCopyOfThisProgramStillWorks) {
  const std::string copy = join({folder_, "/stripped_test"});
  shell(join({"cp /proc/", std::to_string(getpid()), "/exe ", copy, " && strip ", copy}));
  const std::string output = command_output(
      join({copy, " --gtest_also_run_disabled_tests --gtest_filter='SymboliserStripped.*' 2>&1"}));
  EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << output;
}

// Run by the test above in a copy without symbols.
TEST(SymboliserStripped, DISABLED_NamesFunctionsByModuleAndStart) {
  MetadataArena arena(system_pages);
  Symboliser symboliser(arena, system_pages);
  const uintptr_t start = reinterpret_cast<uintptr_t>(&hidden_function);
  char out[256];
  symboliser.frame_name(start + 2, out, sizeof(out));
  const uintptr_t base = base_of(reinterpret_cast<void*>(&hidden_function));
  EXPECT_EQ(std::string(out), join({"?stripped_test+0x", hexadecimal(start - base)}));
}

TEST_F(SymboliserPlugins, AReplacedFileNamesNothing) {
  const std::string path = plugin("old", "shown"), other = plugin("new", "wrong");
  void* handle = load(path);
  shell(join({"mv ", other, " ", path}));
  void* function = hidden(handle);
  EXPECT_EQ(
      name_of(function),
      join({"?old.so+0x", hexadecimal(reinterpret_cast<uintptr_t>(function) - base_of(function))}));
  dlclose(handle);
}

TEST_F(SymboliserPlugins, ADeletedFileNamesNothing) {
  const std::string path = plugin("gone", "shown");
  void* handle = load(path);
  shell(join({"rm ", path}));
  EXPECT_EQ(name_of(hidden(handle)).substr(0, 11), "?gone.so+0x");
  EXPECT_FALSE(symboliser_.was_starved()) << "it will not come back";
  dlclose(handle);
}

// Its memory reads as the old file did.
TEST_F(SymboliserPlugins, AReplacedFileWithoutABuildIdNamesNothing) {
  const auto build = [&](const std::string& name, const std::string& first,
                         const std::string& second) {
    const std::string source = join({folder_, "/", name, ".c"});
    const std::string object = join({folder_, "/", name, ".so"});
    std::ofstream(source) << "int " << first << "(int a) { return a + 1; }\n"
                          << "int " << second << "(int a) { return a + 2; }\n";
    shell(join({"cc -O2 -fPIC -shared -Wl,--build-id=none -o ", object, " ", source}));
    return object;
  };
  const std::string path = build("old", "apple", "berry"), other = build("new", "berry", "apple");
  void* handle = load(path);
  Symboliser before(arena_, system_pages);
  const uintptr_t pc = reinterpret_cast<uintptr_t>(dlsym(handle, "apple")) + 1;
  char out[64];
  before.frame_name(pc, out, sizeof(out));
  EXPECT_STREQ(out, "apple");
  shell(join({"mv ", other, " ", path}));
  EXPECT_EQ(name(pc).substr(0, 10), "?old.so+0x");
  dlclose(handle);
}

TEST_F(SymboliserPlugins, AFileCutShortIsSurvived) {
  const std::string path = plugin("cut", "shown");
  void* handle = load(path);
  const uintptr_t pc = reinterpret_cast<uintptr_t>(hidden(handle)) + 1;
  EXPECT_EQ(name(pc), "hidden_shown");
  dlclose(handle);
  shell(join({"truncate -s 0 ", path}));
  const std::string after = name(pc);
  EXPECT_EQ(after.substr(0, 7), "?cut.so");
}

// Nobody can run its code any more, but our list of modules is read again.
TEST_F(SymboliserPlugins, ALoadedFileCutShortIsSurvived) {
  const std::string path = plugin("cut", "shown"), other = plugin("other", "later");
  const auto body = [&] {
    const uintptr_t pc = reinterpret_cast<uintptr_t>(hidden(load(path))) + 1;
    if (name(pc) != "hidden_shown") _exit(1);
    if (truncate(path.c_str(), 0) != 0) _exit(2);
    _exit(name_of(hidden(load(other))) == "hidden_later" ? 0 : 3);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

// It is asked for all the same: what was allocated there may live on.
TEST_F(SymboliserPlugins, ALoadedFileCutShortNamesItsFile) {
  for (const off_t bytes : {0, 4096}) {
    const std::string path = plugin("cut", "shown");
    const auto body = [&] {
      const uintptr_t pc = reinterpret_cast<uintptr_t>(hidden(load(path))) + 1;
      if (name(pc) != "hidden_shown") _exit(1);
      // As container runtimes do: whether memory is there, is found out without it.
      if (!answer_calls(SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM)) _exit(2);
      if (truncate(path.c_str(), bytes) != 0) _exit(2);
      if (name(pc) != "?cut.so") _exit(3);
      ModuleInfo info;
      if (!symboliser_.module_of(pc, &info) || info.build != 0) _exit(4);
      _exit(unwind_frame_bytes(pc) == 0 ? 0 : 5);
    };
    EXPECT_EXIT(body(), testing::ExitedWithCode(0), "") << bytes;
  }
}

TEST_F(SymboliserPlugins, AFileThatIsWrittenToNamesNothing) {
  const std::string path = plugin("old", "shown"), other = plugin("new", "wrong");
  void* handle = load(path);
  const uintptr_t pc = reinterpret_cast<uintptr_t>(hidden(handle)) + 1;
  EXPECT_EQ(name(pc), "hidden_shown");
  dlclose(handle);
  shell(join({"cat ", other, " >", path}));
  EXPECT_EQ(name(pc), "?old.so");
}

// What it held when its functions were found may have moved.
TEST_F(SymboliserPlugins, ALoadedFileThatGrowsNamesNothing) {
  const std::string path = plugin("old", "shown");
  void* handle = load(path);
  EXPECT_EQ(name_of(hidden(handle)), "hidden_shown");
  shell(join({"echo >>", path}));
  EXPECT_EQ(name_of(hidden(handle)).substr(0, 11), "?old.so+0x1");
  dlclose(handle);
}

TEST_F(SymboliserPlugins, WhatIsLoadedForEverCostsNothing) {
  const std::string path = plugin("seed", "shown");
  size_t used = 0, mapped = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string copy = join({folder_, "/", std::to_string(i), ".so"});
    shell(join({"cp ", path, " ", copy}));
    void* handle = load(copy);
    EXPECT_EQ(name_of(hidden(handle)), "hidden_shown");
    dlclose(handle);
    unlink(copy.c_str());
    name(0);  // the list is read
    if (i == 50) used = arena_.used_bytes(), mapped = system_.mapped;
  }
  EXPECT_EQ(arena_.used_bytes(), used);
  EXPECT_EQ(system_.mapped, mapped);
}

// What was sampled in one file is not named by another that lies there now.
TEST_F(SymboliserPlugins, AnImageIsNamedOrNothingIs) {
  const std::string paths[] = {plugin("a", "apple"), plugin("b", "berry")};
  void* handle = load(paths[0]);
  const uintptr_t pc = reinterpret_cast<uintptr_t>(hidden(handle)) + 1;
  ModuleInfo apple, berry;
  ASSERT_TRUE(symboliser_.module_of(pc, &apple));
  EXPECT_NE(apple.image, 0u);
  dlclose(handle);
  handle = load(paths[1]);
  if (reinterpret_cast<uintptr_t>(hidden(handle)) + 1 != pc) GTEST_SKIP() << "lies elsewhere";
  ASSERT_TRUE(symboliser_.module_of(pc, &berry));
  EXPECT_NE(apple.image, berry.image);
  char out[64];
  symboliser_.frame_name(pc, out, sizeof(out), berry.image);
  EXPECT_STREQ(out, "hidden_berry");
  symboliser_.frame_name(pc, out, sizeof(out), apple.image);
  EXPECT_STREQ(out, "hidden_apple");  // gone, but one of the last
  symboliser_.frame_name(pc, out, sizeof(out), 12345);
  EXPECT_STREQ(out, "?");
  EXPECT_FALSE(symboliser_.module_of(pc, &apple, 12345));
  dlclose(handle);
}

TEST_F(SymboliserTest, ImagesAreThoseOfTheUnwinder) {
  StackTrace trace;
  unwind({reinterpret_cast<uintptr_t>(&lfind) + 1, 0, 0, 0}, {}, &trace);
  ModuleInfo info;
  ASSERT_TRUE(symboliser_.module_of(reinterpret_cast<uintptr_t>(&lfind) + 1, &info));
  EXPECT_NE(info.image, 0u);
  EXPECT_EQ(trace.images[0], info.image);
}

TEST_F(SymboliserPlugins, NamesFollowWhatIsMappedNow) {
  const std::string paths[] = {plugin("a", "apple"), plugin("b", "berry")};
  const std::string names[] = {"hidden_apple", "hidden_berry"};
  void* places[2];
  size_t used = 0;
  for (int i = 0; i < 20; ++i) {
    void* handle = load(paths[i % 2]);
    places[i % 2] = hidden(handle);
    EXPECT_EQ(name_of(places[i % 2]), names[i % 2]);
    dlclose(handle);
    EXPECT_EQ(name_of(places[i % 2]), names[i % 2]);  // still known
    if (i == 3) used = arena_.used_bytes();
  }
  // The same two files; a place of theirs that is new is a record.
  EXPECT_LE(arena_.used_bytes(), used + Symboliser::kGone * 5000);
  EXPECT_EQ(places[0], places[1]);  // else the test shows less
}

TEST_F(SymboliserPlugins, OthersMayLoadAndUnloadMeanwhile) {
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i)
    paths.push_back(plugin(join({"m", std::to_string(i)}), join({"f", std::to_string(i)})));
  std::atomic<uintptr_t> places[3] = {};
  std::atomic<bool> done{false};
  std::atomic<int> named{0};
  std::thread loader([&] {
    for (int i = 0; i < 2000 || (named == 0 && i < 200000); ++i) {  // a busy machine needs more
      void* handle = load(paths[i % 3]);
      places[i % 3] = reinterpret_cast<uintptr_t>(hidden(handle)) + 1;
      dlclose(handle);
    }
    done = true;
  });
  while (!done)
    for (const auto& place : places) {
      const std::string found = name(place);
      named += found.substr(0, 8) == "hidden_f";
      EXPECT_TRUE(found == "?" || found.substr(0, 8) == "hidden_f" || found[0] == '?') << found;
    }
  loader.join();
  EXPECT_GT(named, 0);
}

// The limit on descriptors is reached, or memory is: not for ever.
TEST_F(SymboliserPlugins, WhatCannotBeReadNowIsNamedLater) {
  void* handle = load(plugin("busy", "shown"));
  const uintptr_t pc = reinterpret_cast<uintptr_t>(hidden(handle)) + 1;
  name(0);  // the list is read
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(name(pc).substr(0, 11), "?busy.so+0x");
  EXPECT_TRUE(symboliser_.was_starved());
  EXPECT_EQ(name(0x1000), "?");
  EXPECT_FALSE(symboliser_.was_starved());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  system_.most_mapped = 0;
  EXPECT_EQ(name(pc).substr(0, 11), "?busy.so+0x");
  EXPECT_TRUE(symboliser_.was_starved());
  system_.most_mapped = SIZE_MAX;
  EXPECT_EQ(name(pc), "hidden_shown");
  EXPECT_FALSE(symboliser_.was_starved());
  dlclose(handle);
}

// A library may have more bytes of names than a heap has objects.
TEST_F(SymboliserPlugins, NamesStayInTheFile) {
  constexpr int kFunctions = 1000;
  const std::string path = join({folder_, "/long.so"}), source = join({folder_, "/long.c"});
  const std::string tail(2000, 'x');
  std::ofstream file(source);
  for (int i = 0; i < kFunctions; ++i)
    file << "int f" << i << tail << "(int a) { return a + " << i << "; }\n";
  file.close();
  shell(join({"cc -O1 -fPIC -shared -o ", path, " ", source}));
  void* handle = load(path);
  const std::string wanted = join({"f7", tail});
  EXPECT_EQ(name_of(dlsym(handle, wanted.c_str())), wanted.substr(0, 511));
  EXPECT_LT(system_.mapped, 32u << 10) << "the names take 2 MB";
  dlclose(handle);
}

TEST_F(SymboliserTest, PrintsItsSpeed) {
  char out[256];
  const uintptr_t pc = reinterpret_cast<uintptr_t>(&lfind) + 1;
  symboliser_.frame_name(pc, out, sizeof(out));
  const auto from = std::chrono::steady_clock::now();
  for (int i = 0; i < 10000; ++i) EXPECT_GT(symboliser_.frame_name(pc, out, sizeof(out)), 0u);
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - from;
  printf("  %.0f ns a name, %zu bytes of tables\n", spent.count() / 10000, arena_.used_bytes());
}

}  // namespace
}  // namespace llamalloc
