// SPDX-License-Identifier: Apache-2.0
#include "os/own_stack.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#include <functional>

#include "base/units.h"
#include "os/static_tls.h"
#include "os/unwind.h"

namespace llamalloc {
namespace {

// Memory for a stack between two pages that cannot be read.
class GuardedStack {
 public:
  explicit GuardedStack(size_t bytes, void* near = nullptr) : bytes_(bytes) {
    char* hint = static_cast<char*>(near);
    void* all = mmap(hint, bytes + 2 * kSmallPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    low_ = static_cast<char*>(all) + kSmallPage;
    EXPECT_EQ(mprotect(low_, bytes, PROT_READ | PROT_WRITE), 0);
  }
  GuardedStack(const GuardedStack&) = delete;
  ~GuardedStack() { munmap(low_ - kSmallPage, bytes_ + 2 * kSmallPage); }

  char* low() const { return low_; }
  size_t bytes() const { return bytes_; }
  uintptr_t high() const { return reinterpret_cast<uintptr_t>(low_) + bytes_; }

 private:
  const size_t bytes_;
  char* low_;
};

ucontext_t outside, inside;
const std::function<void()>* on_fiber_body;
void fiber_main() {
  (*on_fiber_body)();
  swapcontext(&inside, &outside);
}
void on_fiber(const GuardedStack& stack, const std::function<void()>& body) {
  on_fiber_body = &body;
  getcontext(&inside);
  inside.uc_stack.ss_sp = stack.low();
  inside.uc_stack.ss_size = stack.bytes();
  makecontext(&inside, fiber_main, 0);
  swapcontext(&outside, &inside);
}

void in_thread(const pthread_attr_t* attributes, const std::function<void()>& body) {
  own_stack();  // the main thread first, as in every process
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  void* argument = const_cast<std::function<void()>*>(&body);
  ASSERT_EQ(pthread_create(&thread, attributes, run, argument), 0);
  pthread_join(thread, nullptr);
}
// Thread-local variables, those of other tests too, are on top of it.
void in_thread_of(size_t stack_bytes, const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  const size_t all = align_up(stack_bytes + thread_local_bytes(), kSmallPage);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, all), 0);
  in_thread(&attributes, body);
  pthread_attr_destroy(&attributes);
}

uintptr_t here() {
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
}

// What the C library says, by the call that we cannot make inside malloc.
void expect_as_the_c_library_says() {
  pthread_attr_t attributes;
  void* low;
  size_t bytes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  const StackBounds own = own_stack();
  EXPECT_EQ(own.low, reinterpret_cast<uintptr_t>(low));
  EXPECT_EQ(own.high, reinterpret_cast<uintptr_t>(__builtin_thread_pointer()));
  EXPECT_LT(own.high, own.low + bytes);
  EXPECT_TRUE(own.contains(here()));
  const StackBounds same = own_stack_down_to(own.low - 1);
  EXPECT_EQ(same.low, own.low);
}

// Only the page of sp, whatever lies above it. Every byte of the window is read.
void expect_one_page() {
  const uintptr_t sp = here();
  const StackWindow window = current_stack_window(sp);
  EXPECT_EQ(window.low, sp);
  EXPECT_EQ(window.high, align_up(sp + 1, kSmallPage));
  EXPECT_FALSE(own_stack_down_to(sp).contains(sp));
}

TEST(OwnStack, OfThreadsIsWhatTheCLibrarySays) {
  in_thread(nullptr, expect_as_the_c_library_says);
  for (size_t kib : {64, 200, 1024, 20480}) in_thread_of(kib << 10, expect_as_the_c_library_says);
}

TEST(OwnStack, MayHaveNoGuardOrALargeOne) {
  for (size_t guard : {size_t{0}, size_t{1} << 16}) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setguardsize(&attributes, guard);
    in_thread(&attributes, expect_as_the_c_library_says);
    pthread_attr_destroy(&attributes);
  }
}

TEST(OwnStack, MayBeTheProgramsOwnMemory) {
  const GuardedStack memory(size_t{1} << 20);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstack(&attributes, memory.low() + 48, memory.bytes() - 96), 0);
  in_thread(&attributes, expect_as_the_c_library_says);
  pthread_attr_destroy(&attributes);
}

// 40 frames of 16 KiB: deeper than what was known of the stack at the start.
[[gnu::noinline]] void descend(int depth) {
  volatile char frame[16384];
  frame[0] = static_cast<char>(depth);
  if (depth > 0) {
    descend(depth - 1);
  } else {
    const StackWindow window = current_stack_window(here());
    EXPECT_EQ(window.high, main_stack_end());
    EXPECT_LE(own_stack().low, here());
    EXPECT_GT(own_stack().low + kSmallPage, here()) << "no more than was asked for";
  }
  frame[1] = frame[0];
}
TEST(OwnStack, OfTheMainThreadIsKnownAsFarDownAsItWasLookedAt) {
  EXPECT_EQ(own_stack().high, main_stack_end());
  descend(40);
  EXPECT_TRUE(own_stack().contains(here()));
}

TEST(OwnStack, AFiberBelowItIsNotPartOfIt) {
  for (size_t kib : {64, 256, 8192}) {
    in_thread_of(kib << 10, [] {
      // Where the system puts them: mostly next to the thread's stack.
      for (int i = 0; i < 5; ++i) {
        const GuardedStack stack(16 * kSmallPage);
        on_fiber(stack, expect_one_page);
      }
      const GuardedStack close(16 * kSmallPage,
                               reinterpret_cast<char*>(own_stack().low) - (size_t{1} << 20));
      on_fiber(close, expect_one_page);
    });
  }
}

// The system keeps free what the limit lets the stack grow to, but not from who insists.
TEST(OwnStack, AFiberBelowTheMainStackIsNotPartOfIt) {
  const uintptr_t before = own_stack_down_to(here()).low;
  for (size_t mib : {2, 5, 32}) {
    char* const place = reinterpret_cast<char*>(align_down(here(), kSmallPage) - (mib << 20));
    const GuardedStack stack(16 * kSmallPage, place);
    ASSERT_EQ(stack.low(), place + kSmallPage);
    on_fiber(stack, expect_one_page);
  }
  EXPECT_EQ(own_stack().low, before) << "and it did not grow from being looked at";
}

// A page that cannot be read, with no hole between it and the stack.
TEST(OwnStack, AGuardPageEndsTheMainStack) {
  const auto body = [] {
    const uintptr_t guard = own_stack_down_to(here()).low - 16 * kSmallPage;
    void* const made = mmap(reinterpret_cast<void*>(guard), kSmallPage, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    const StackBounds own = own_stack_down_to(guard - 4 * kSmallPage);
    _exit(made != MAP_FAILED && own.low == guard + kSmallPage ? 0 : 1);
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST(OwnStack, LeavesErrnoAndTheSignalMaskAlone) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  errno = 77;
  own_stack_down_to(own_stack().low - 8 * kSmallPage);
  EXPECT_EQ(errno, 77);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int s = 1; s < 65; ++s) EXPECT_EQ(sigismember(&before, s), sigismember(&after, s)) << s;
}

// What the allocator does on a fiber, right up to the guard page above it.
char copy[24 * 1024];
[[gnu::noinline]] bool snapshot_here(StackSnapshot* out) {
  const uintptr_t caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  return take_snapshot(caller, copy, sizeof(copy), out);
}
TEST(OwnStack, ASnapshotOnAFiberStaysOnIt) {
  in_thread_of(256 << 10, [] {
    const GuardedStack stack(16 * kSmallPage);
    on_fiber(stack, [&] {
      StackSnapshot snapshot;
      if (snapshot_here(&snapshot)) {
        EXPECT_LE(snapshot.window.high, stack.high());
      }
      EXPECT_NE(snapshot.registers.pc, 0u);
    });
  });
}

}  // namespace
}  // namespace llamalloc
