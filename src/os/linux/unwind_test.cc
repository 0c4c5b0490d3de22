// SPDX-License-Identifier: Apache-2.0
// Agreement with _Unwind_Backtrace wherever real programs allocate.
#include "os/unwind.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "os/linux/unwind_agreement.h"

namespace llamalloc {
namespace {

volatile int sink = 0;

// Runs body and expects that every capture in it agreed and was whole, and that there were some.
void expect_agreement(const char* what, const std::function<void()>& body, int at_least,
                      int most_truncated = 0) {
  const int captures = agreement.captures, wrong = agreement.wrong;
  const int truncated = agreement.truncated;
  body();
  const int taken = agreement.captures - captures;
  printf("  %-28s %7d captures, %d cut short\n", what, taken, agreement.truncated - truncated);
  EXPECT_GE(taken, at_least) << what;
  EXPECT_EQ(agreement.wrong - wrong, 0) << what;
  EXPECT_LE(agreement.truncated - truncated, most_truncated) << what;
}

int compare_ints(const void* a, const void* b) {
  check_here();
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

std::vector<int> shuffled(int n) {
  std::vector<int> values(n);
  for (int i = 0; i < n; ++i) values[i] = i;
  std::shuffle(values.begin(), values.end(), std::mt19937(n));
  return values;
}

void sort_both_ways() {
  std::vector<int> values = shuffled(300);
  qsort(values.data(), values.size(), sizeof(int), compare_ints);
  values = shuffled(300);
  std::sort(values.begin(), values.end(), [](int a, int b) {
    check_here();
    return a < b;
  });
  std::partial_sort(values.begin(), values.begin() + 150, values.end(), [](int a, int b) {
    check_here();
    return a > b;
  });
}

struct CheckOnExit {
  ~CheckOnExit() { check_here(); }
};

[[gnu::noinline]] void throw_from(int depth) {
  CheckOnExit guard;
  if (depth == 0) throw std::runtime_error("deep");
  throw_from(depth - 1);
  sink = sink + 1;
}

void exceptions() {
  for (int i = 0; i < 30; ++i) {
    try {
      throw_from(i);
    } catch (const std::exception&) {
      check_here();
      try {
        throw_from(3);
      } catch (...) {
        check_here();
      }
    }
  }
}

[[gnu::noinline]] void with_alloca(size_t bytes) {
  volatile char* memory = static_cast<char*>(alloca(bytes));
  memory[0] = 1;
  check_here();
  sink = sink + memory[0];
}

[[gnu::noinline]] void realigned(int depth) {
  alignas(64) volatile char line[64];
  line[depth & 63] = 1;
  check_here();
  if (depth > 0) realigned(depth - 1);
  sink = sink + line[0];
}

[[gnu::noinline]] void realigned_and_variable(int depth) {
  alignas(128) volatile char line[128];
  volatile char* memory = static_cast<char*>(alloca(depth * 40 + 8));
  memory[0] = 1;
  line[1] = 1;
  check_here();
  if (depth > 0) realigned_and_variable(depth - 1);
  sink = sink + line[0] + memory[0];
}

[[gnu::noinline]] void huge_frame(int depth) {
  volatile char memory[200000];
  memory[depth] = 1;
  check_here();
  if (depth > 0) huge_frame(depth - 1);
  sink = sink + memory[0];
}

[[gnu::noinline]] int recurse(int depth, int a, int b, int c) {
  if (depth == 0) {
    check_here();
    return a;
  }
  const int r = recurse(depth - 1, b, c, a + depth) + recurse(0, a, b, c);
  return r + a;
}

class CheckingBuffer : public std::stringbuf {
 protected:
  int overflow(int c) override {
    check_here();
    return std::stringbuf::overflow(c);
  }
  std::streamsize xsputn(const char* s, std::streamsize n) override {
    check_here();
    return std::stringbuf::xsputn(s, n);
  }
};

struct CheckedKey {
  int value;
  bool operator<(const CheckedKey& o) const {
    check_here();
    return value < o.value;
  }
};

void library_code() {
  CheckingBuffer buffer;
  std::ostream stream(&buffer);
  for (int i = 0; i < 200; ++i) stream << "n " << i << ' ' << i * 0.3 << ' ' << &i << std::endl;
  std::map<CheckedKey, int> tree;
  for (int i : shuffled(200)) tree[CheckedKey{i}] = i;
  for (int i = 0; i < 200; i += 3) tree.erase(CheckedKey{i});
}

TEST(Unwind, AgreesInCallbacks) {
  expect_agreement("qsort, std::sort", sort_both_ways, 5000);
  expect_agreement("iostream, std::map", library_code, 3000);
}
TEST(Unwind, AgreesDuringExceptions) {
  expect_agreement("exceptions", exceptions, 500);
}
TEST(Unwind, AgreesInOddFrames) {
  expect_agreement(
      "alloca",
      [] {
        for (int i = 0; i < 500; ++i) with_alloca(i * 7 + 1);
      },
      500);
  expect_agreement(
      "realigned",
      [] {
        for (int i = 0; i < 40; ++i) realigned(i);
      },
      800);
  expect_agreement(
      "realigned and alloca",
      [] {
        for (int i = 0; i < 40; ++i) realigned_and_variable(i);
      },
      800);
  expect_agreement("huge frames", [] { huge_frame(20); }, 20);
  expect_agreement("deep recursion", [] { recurse(300, 1, 2, 3); }, 300);
}

void* thread_body(void*) {
  sort_both_ways();
  exceptions();
  library_code();
  return nullptr;
}
TEST(Unwind, AgreesInThreads) {
  expect_agreement(
      "four threads",
      [] {
        pthread_t threads[4];
        for (auto& t : threads) ASSERT_EQ(pthread_create(&t, nullptr, thread_body, nullptr), 0);
        for (auto& t : threads) pthread_join(t, nullptr);
      },
      30000);
}

void on_signal(int) {
  check_here();
}
void raise_signals() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, nullptr);
  for (int i = 0; i < 100; ++i) raise(SIGUSR1);
}
TEST(Unwind, AgreesInSignalHandlers) {
  expect_agreement("signal handlers", raise_signals, 100);
}

volatile sig_atomic_t seen_in_handler;

void look_in_handler(int) {
  seen_in_handler = is_in_signal_handler();
}

void raise_with(int flags) {
  struct sigaction action{};
  action.sa_handler = look_in_handler;
  action.sa_flags = flags;
  sigaction(SIGUSR1, &action, nullptr);
  seen_in_handler = 0;
  raise(SIGUSR1);
}

TEST(Unwind, KnowsWhetherItRunsInASignalHandler) {
  EXPECT_FALSE(is_in_signal_handler());
  raise_with(0);
  EXPECT_TRUE(seen_in_handler);
  static char memory[64 * 1024];
  stack_t stack{}, before;
  stack.ss_sp = memory;
  stack.ss_size = sizeof(memory);
  ASSERT_EQ(sigaltstack(&stack, &before), 0);
  EXPECT_FALSE(is_in_signal_handler());
  raise_with(SA_ONSTACK);
  EXPECT_TRUE(seen_in_handler);
  sigaltstack(&before, nullptr);
  EXPECT_FALSE(is_in_signal_handler());
}

// Interrupted anywhere, prologues and linkage tables included.
TEST(Unwind, AgreesWhereverATimerInterrupts) {
  expect_agreement(
      "timer signals",
      [] {
        struct sigaction action{};
        action.sa_handler = on_signal;
        sigaction(SIGPROF, &action, nullptr);
        const itimerval every{{0, 1000}, {0, 1000}}, off{};
        const int before = agreement.captures;
        setitimer(ITIMER_PROF, &every, nullptr);
        for (int i = 0; i < 20000 && agreement.captures < before + 150; ++i) {
          std::vector<std::string> words;
          for (int j : shuffled(200)) words.push_back(std::to_string(j * 0.37));
          std::sort(words.begin(), words.end());
          sink = sink + static_cast<int>(words[0].size());
        }
        setitimer(ITIMER_PROF, &off, nullptr);
      },
      100);
}

void on_alternate(int) {
  StackTrace trace;
  const Registers here = capture_registers();
  unwind(here, current_stack_window(here.sp), &trace);
  EXPECT_TRUE(trace.truncated);
  EXPECT_GE(trace.depth, 1);
  check_here();
}
TEST(Unwind, IsCutShortOnASignalStack) {
  std::vector<char> memory(256 * 1024);
  stack_t alternate{}, before{};
  alternate.ss_sp = memory.data();
  alternate.ss_size = memory.size();
  ASSERT_EQ(sigaltstack(&alternate, &before), 0);
  struct sigaction action{};
  action.sa_handler = on_alternate;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, nullptr);
  expect_agreement(
      "signal stack",
      [] {
        for (int i = 0; i < 10; ++i) raise(SIGUSR2);
      },
      10, 10);
  sigaltstack(&before, nullptr);
}

ucontext_t main_context, fiber_context;
void fiber() {
  sort_both_ways();
  swapcontext(&fiber_context, &main_context);
}
TEST(Unwind, DoesNotFaultOnAFiber) {
  std::vector<char> memory(256 * 1024);
  getcontext(&fiber_context);
  fiber_context.uc_stack.ss_sp = memory.data();
  fiber_context.uc_stack.ss_size = memory.size();
  makecontext(&fiber_context, fiber, 0);
  expect_agreement("fiber", [] { swapcontext(&main_context, &fiber_context); }, 1000, 1 << 20);
}

// What the shim does: it knows the address it will return to.
[[gnu::noinline]] void allocate_like(StackTrace* trace, StackTrace* later, Reference* reference) {
  const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  static char copy[32 * 1024];
  StackSnapshot snapshot;
  unwind_from_here(caller, trace);
  EXPECT_TRUE(take_snapshot(caller, copy, sizeof(copy), &snapshot));
  std::thread([&] { unwind_snapshot(snapshot, later); }).join();
  reference->depth = 0;
  _Unwind_Backtrace(record_frame, reference);
}
[[gnu::noinline]] void nest(int depth, StackTrace* trace, StackTrace* later, Reference* r) {
  if (depth > 0)
    nest(depth - 1, trace, later, r);
  else
    allocate_like(trace, later, r);
  sink = sink + 1;
}
TEST(Unwind, FromHereAndFromASnapshotAreTheCallersTrace) {
  static Reference reference;
  for (int depth = 0; depth < 100; ++depth) {
    StackTrace trace, later;
    nest(depth, &trace, &later, &reference);
    reference.depth -= 1;  // allocate_like itself
    std::copy(reference.frames + 1, reference.frames + 1 + reference.depth, reference.frames);
    const int wrong = agreement.wrong;
    compare(trace, reference, 0);
    ASSERT_EQ(agreement.wrong, wrong);
    EXPECT_EQ(trace.depth, std::min(reference.depth, kMaxFrames));
    EXPECT_EQ(trace.truncated, reference.depth > kMaxFrames);
    EXPECT_TRUE(trace == later);
    EXPECT_EQ(trace.truncated, later.truncated);
  }
}
TEST(Unwind, ASmallSnapshotGivesATruncatedPrefix) {
  const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  StackTrace trace, later;
  unwind_from_here(caller, &trace);
  std::vector<char> copy(4096);
  for (size_t room = 0; room < copy.size(); room += 8) {
    StackSnapshot snapshot;
    ASSERT_TRUE(take_snapshot(caller, copy.data(), room, &snapshot));
    unwind_snapshot(snapshot, &later);
    ASSERT_LE(later.depth, trace.depth);
    EXPECT_TRUE(later.truncated || later.depth == trace.depth);
    EXPECT_TRUE(std::equal(later.frames, later.frames + later.depth, trace.frames));
  }
}
TEST(Unwind, AnUnknownReturnAddressGivesItAlone) {
  StackTrace trace;
  unwind_from_here(0x1234, &trace);
  EXPECT_EQ(trace.depth, 1);
  EXPECT_EQ(trace.frames[0], 0x1234u);
  EXPECT_TRUE(trace.truncated);
}
// An exact copy of the first bytes of a stack: the address sanitizer sees every read beyond it.
__attribute__((no_sanitize("address"))) std::unique_ptr<char[]> copy_of(const char* image,
                                                                        size_t bytes) {
  std::unique_ptr<char[]> copy(new char[bytes]);
  volatile char* to = copy.get();
  for (size_t i = 0; i < bytes; ++i) to[i] = image[i];
  return copy;
}
// It would pass for a frame of the module that called last.
TEST(Unwind, CodeMadeAtRunTimeHasNoImage) {
  // sub $8, %rsp; call *%rdi; add $8, %rsp; ret
  constexpr uint8_t kCode[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};
  void* const code =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(code, MAP_FAILED);
  memcpy(code, kCode, sizeof(kCode));
  static StackTrace trace;
  const auto here = [] {
    const Registers registers = capture_registers();
    unwind(registers, current_stack_window(registers.sp), &trace);
  };
  using Function = void (*)();
  reinterpret_cast<void (*)(Function)>(code)(here);
  const int last = trace.depth - 1;
  EXPECT_EQ(trace.frames[last], reinterpret_cast<uintptr_t>(code) + 6);
  EXPECT_NE(trace.images[0], 0u);
  EXPECT_EQ(trace.images[last], 0u);
  EXPECT_EQ(trace.codes[last], 0u);
  EXPECT_TRUE(trace.truncated);
  munmap(code, 4096);
}

TEST(Unwind, NoReadLeavesTheWindow) {
  const Registers here = capture_registers();
  const StackWindow whole = current_stack_window(here.sp);
  StackTrace full;
  unwind(here, whole, &full);
  for (size_t bytes = 0; bytes < 4096; bytes += 8) {
    const std::unique_ptr<char[]> copy = copy_of(whole.image, bytes);
    StackTrace trace;
    unwind(here, {whole.low, whole.low + bytes, copy.get()}, &trace);
    EXPECT_TRUE(std::equal(trace.frames, trace.frames + trace.depth, full.frames));
  }
  const std::unique_ptr<char[]> copy = copy_of(whole.image, whole.high - whole.low);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uintptr_t sp = here.sp + random() % 4096;
    const uintptr_t rbp = i % 2 ? random() : here.sp + random() % 8192;
    StackTrace trace;
    unwind({full.frames[random() % full.depth], sp, rbp, rbp}, {whole.low, whole.high, copy.get()},
           &trace);
    EXPECT_GE(trace.depth, 1);
  }
}

// In a process of its own: the first walk of a thread asks the system for the size of stacks.
TEST(UnwindDeathTest, KeepsErrno) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto body = [] {
    std::thread([] {
      errno = 77;
      StackTrace trace;
      unwind_from_here(reinterpret_cast<uintptr_t>(__builtin_return_address(0)), &trace);
      _exit(errno == 77 && trace.depth > 0 ? 0 : 1);
    }).join();
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST(Unwind, NamesFunctionStarts) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(&compare_ints);
  EXPECT_EQ(unwind_function_start(start + 5), start);
  EXPECT_EQ(unwind_function_start(0x10), 0u);
}

// The quickest of many batches: others use the machine too.
[[gnu::noinline]] double nanoseconds(int depth, bool cold) {
  if (depth > 0) {
    const double r = nanoseconds(depth - 1, cold);
    sink = sink + 1;
    return r;
  }
  const int rounds = cold ? 20 : 500;
  StackTrace trace;
  double quickest = 1e9;
  for (int batch = 0; batch < 100; ++batch) {
    const auto from = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
      if (cold) unwind_cache_clear();
      const Registers here = capture_registers();
      unwind(here, current_stack_window(here.sp), &trace);
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - from;
    quickest = std::min(quickest, spent.count() / rounds);
  }
  return quickest;
}
TEST(Unwind, PrintsItsSpeed) {
  for (int depth : {0, 8, 30, 50}) {
    StackTrace trace;
    const double warm = nanoseconds(depth, false), cold = nanoseconds(depth, true);
    printf("  %2d more frames: warm %7.1f ns, cold %8.1f ns\n", depth, warm, cold);
    EXPECT_GT(warm, 0);
  }
}

[[gnu::noinline]] StackTrace trace_of_caller() {
  StackTrace trace;
  unwind_from_here(reinterpret_cast<uintptr_t>(__builtin_return_address(0)), &trace);
  return trace;
}

// Who keeps traces knows a module by its image, whatever was unloaded since.
TEST(Unwind, ForgottenRowsLeaveImagesAsTheyAre) {
  StackTrace traces[2];
  for (StackTrace& trace : traces) {
    trace = trace_of_caller();
    unwind_cache_clear();
  }
  EXPECT_NE(traces[0].images[0], 0u);
  EXPECT_EQ(traces[0].images[0], traces[1].images[0]);
}

}  // namespace
}  // namespace llamalloc
