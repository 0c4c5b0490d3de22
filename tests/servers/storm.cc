// SPDX-License-Identifier: Apache-2.0
// All that can happen to a thread which an allocator takes to be idle, for SECONDS, every byte
// verified.
//
//   storm SECONDS SEED THREADS
//
// Threads come and go. Each allocates, hands blocks to others, sleeps in every way (storm_sleep.h),
// runs on without a call, and has children that share its memory (storm_children.h), in random
// order. Signals come at any time; handlers allocate in a sleeping thread and leave it by
// siglongjmp; a tracer stops threads; the process forks. Prints what it did and how many caches the
// library emptied; one that should and emptied none is a fault.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "block.h"
#include "storm_children.h"
#include "storm_sleep.h"

extern "C" [[gnu::weak]] int llamalloc_get(const char* name, void* out, size_t* bytes);

namespace storm {
namespace {

constexpr size_t kBlocks = 400, kMailboxes = 64, kBallast = 10000, kAltStack = 256 << 10;
constexpr size_t kStack = 48 << 20;
constexpr size_t kMostThreads = 64;

struct Mailbox {
  std::mutex guard;
  Block block;
};

// Whom signals may be sent to.
struct Target {
  std::mutex guard;
  pthread_t thread;
  bool alive = false;
  std::atomic<bool> ended{false};
};

Mailbox mailboxes[kMailboxes];
Target targets[kMostThreads];
std::atomic<bool> stop{false}, all_ended{false};
std::atomic<long> actions{0}, threads_ended{0};
std::atomic<uint64_t> seeds{0};

void act(std::vector<Block>& blocks, uint64_t& state) {
  Block& block = blocks[next_random(state) % blocks.size()];
  const uint64_t r = next_random(state);
  if (block.bytes != nullptr && r % 8 == 0) {
    Mailbox& mailbox = mailboxes[(r >> 8) % kMailboxes];
    const std::lock_guard<std::mutex> hold(mailbox.guard);
    std::swap(block, mailbox.block);
  } else if (block.bytes != nullptr && r % 8 == 1) {
    resize(block, state);
  } else {
    toggle(block, state);
  }
  ++actions;
}

// Awake, and no call into the allocator.
void run_on(const std::vector<Block>& blocks, uint64_t& state) {
  for (uint64_t i = next_random(state) % 100; i > 0; --i) {
    const Block& block = blocks[next_random(state) % blocks.size()];
    if (block.bytes != nullptr) verify(block);
  }
}

void do_something(std::vector<Block>& blocks, Shared& shared, uint64_t& state) {
  const uint64_t r = next_random(state);
  if (r % 32 == 0) {
    run_shared_child(shared);
  } else if (r % 8 < 3) {
    for (uint64_t i = (r >> 8) % 200; i > 0; --i) act(blocks, state);
  } else if (r % 8 == 3) {
    for (uint64_t i = (r >> 8) % 20000; i > 0; --i) free(malloc(40));
  } else if (r % 8 == 4) {
    run_on(blocks, state);
  } else {
    sleep_somehow(state);
  }
}

void set_alive(Target& target, bool alive) {
  const std::lock_guard<std::mutex> hold(target.guard);
  target.thread = pthread_self();
  target.alive = alive;
}

void mask_signals(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(how, &set, nullptr);
}

void* live(void* argument) {
  Target& target = *static_cast<Target*>(argument);
  uint64_t state = seeds.fetch_add(1) * 0x9E3779B97F4A7C15u;
  sleeper.state = state ^ 1;
  std::vector<Block> blocks(kBlocks);
  Shared shared{{}, state ^ 2};
  std::vector<char> other_stack(kAltStack);
  const stack_t other = {other_stack.data(), 0, kAltStack}, none = {nullptr, SS_DISABLE, 0};
  sigaltstack(&other, nullptr);
  set_alive(target, true);
  mask_signals(SIG_UNBLOCK);
  while (!stop && next_random(state) % 400 != 0) do_something(blocks, shared, state);
  mask_signals(SIG_BLOCK);
  set_alive(target, false);
  sigaltstack(&none, nullptr);
  for (Block& block : blocks)
    if (block.bytes != nullptr) release(block);
  for (Block& block : shared.blocks)
    if (block.bytes != nullptr) release(block);
  ++threads_ended;
  target.ended = true;
  return nullptr;
}

// Joined and detached in turn. glibc keeps no stack of that size: while a detached thread ends, it
// frees what belonged to threads before it.
void keep_alive(Target* target) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  for (bool joined = true; !stop; joined = !joined) {
    pthread_t thread;
    target->ended = false;
    const int refused = pthread_create(&thread, &attributes, live, target);
    if (refused != 0) {
      fprintf(stderr, "pthread_create: %s\n", strerror(refused));
      abort();
    }
    if (joined)
      pthread_join(thread, nullptr);
    else
      pthread_detach(thread);
    while (!target->ended) usleep(100);
  }
}

void send_signals(size_t threads, uint64_t seed) {
  for (uint64_t state = seed; !all_ended; usleep(next_random(state) % 300)) {
    Target& target = targets[next_random(state) % threads];
    const std::lock_guard<std::mutex> hold(target.guard);
    if (target.alive) pthread_kill(target.thread, next_random(state) % 2 ? SIGUSR1 : SIGUSR2);
  }
}

uint64_t statistic(const char* name) {
  uint64_t value = 0;
  size_t bytes = sizeof(value);
  return llamalloc_get != nullptr && llamalloc_get(name, &value, &bytes) == 0 ? value : 0;
}

void run(double seconds, uint64_t seed, size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) threads.emplace_back(keep_alive, &targets[i]);
  std::thread sender(send_signals, count, seed + 1);
  for (uint64_t i = 0; std::chrono::steady_clock::now() < end; ++i) {
    run_fork(seed * 1000 + i);
    usleep(50000);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  all_ended = true;
  sender.join();
}

void print() {
  printf(
      "%ld actions, %ld sleeps, %ld signals, %ld blocks in handlers, %ld jumps, %ld threads, "
      "%ld children, %ld forks, %ld stops, %llu emptied\n",
      actions.load(), sleeps.load(), handled.load(), handler_blocks.load(), jumps.load(),
      threads_ended.load(), shared_children.load(), forks.load(), stops->load(),
      static_cast<unsigned long long>(statistic("sleepers_emptied")));
}

}  // namespace
}  // namespace storm

int main(int argc, char** argv) {
  using namespace storm;
  const size_t count = argc == 4 ? strtoull(argv[3], nullptr, 10) : 0;
  if (count < 1 || count > kMostThreads) {
    fprintf(stderr, "usage: %s SECONDS SEED THREADS\n", argv[0]);
    return 2;
  }
  const uint64_t seed = seeds = strtoull(argv[2], nullptr, 10);
  const pid_t tracer = start_tracer(seed);
  install_handlers();
  mask_signals(SIG_BLOCK);
  uint64_t state = seed;
  std::vector<Block> ballast(kBallast);
  for (Block& block : ballast) block = allocate(state);
  for (size_t i = 0; i < kBallast; ++i)
    if (i % 8 != 0) release(ballast[i]);
  run(atof(argv[1]), seed, count);
  kill(tracer, SIGKILL);
  waitpid(tracer, nullptr, 0);
  for (Mailbox& mailbox : mailboxes)
    if (mailbox.block.bytes != nullptr) release(mailbox.block);
  for (Block& block : ballast)
    if (block.bytes != nullptr) release(block);
  print();
  if (statistic("release_sleepers") != 0 && statistic("sleepers_emptied") == 0) {
    fprintf(stderr, "FAULT: no cache was emptied\n");
    return 1;
  }
  return 0;
}
