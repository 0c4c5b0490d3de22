// SPDX-License-Identifier: Apache-2.0
// Small loads on whatever serves malloc and new in this process: malloc_bench [OPTION...] ROW...
// One line of JSON a row. ns (wall) and cpu_ns (all threads) are medians over chunks of about 10
// ms; a neighbour on the machine disturbs cpu_ns least. mean_ns is all time over all operations.
// Bytes are as the kernel counts.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include "measure.h"

namespace {

// --- Rows ---

Result empty(size_t) {
  return measure([](uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) escape(&budget);
  });
}

Result pair(size_t size) {
  return measure([size](uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) free(allocate(size));
  });
}

Result new_delete(size_t size) {
  return measure([size](uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      auto* p = static_cast<char*>(::operator new(size));
      escape(p);
      *p = 1;
      ::operator delete(p, size);
    }
  });
}

constexpr size_t kBatch = 1000;

Result batch(size_t reversed) {
  static void* held[kBatch];
  return measure(
      [reversed](uint64_t n) {
        for (uint64_t done = 0; done < n; done += kBatch) {
          for (void*& p : held) p = allocate(64);
          for (size_t i = 0; i < kBatch; ++i) free(held[reversed ? kBatch - 1 - i : i]);
        }
      },
      kBatch);
}

// Blocks of a file, rows of a table: more than a thread caches, from some size on.
Result hundred(size_t size) {
  static void* held[100];
  return measure(
      [size](uint64_t n) {
        for (uint64_t done = 0; done < n; done += std::size(held)) {
          for (void*& p : held) p = allocate(size);
          for (void* p : held) free(p);
        }
      },
      std::size(held));
}

// Buffers of a request: taken together, freed in reverse.
constexpr size_t kBuffers = 16;

void use_buffers(size_t size, uint64_t n) {
  void* held[kBuffers];
  for (uint64_t done = 0; done < n; done += kBuffers) {
    for (void*& p : held) p = allocate(size);
    for (size_t i = kBuffers; i-- != 0;) free(held[i]);
  }
}

Result buffers(size_t size) {
  return measure([size](uint64_t n) { use_buffers(size, n); }, kBuffers);
}

Result churn(size_t objects) {
  static const Sizes sizes;
  auto** held = static_cast<void**>(malloc(objects * sizeof(void*)));
  static Random random;
  for (size_t i = 0; i < objects; ++i) held[i] = allocate(sizes.pick(random));
  Result result = measure(
      [&](uint64_t n) {
        for (uint64_t i = 0; i < n; ++i) {
          void*& slot = held[random.below(static_cast<uint32_t>(objects))];
          free(slot);
          slot = allocate(sizes.pick(random));
        }
      },
      objects);
  for (size_t i = 0; i < objects; ++i) free(held[i]);
  free(held);
  return result;
}

// RSS and charge over the bytes asked for, after every object was replaced eight times on average.
Result footprint(size_t objects) {
  static const Sizes sizes;
  const size_t before = rss(), charged = charge();
  auto** held = static_cast<void**>(malloc(objects * sizeof(void*)));
  auto* size_of = static_cast<uint16_t*>(malloc(objects * sizeof(uint16_t)));
  memset(size_of, 0, objects * sizeof(uint16_t));
  memset(held, 0, objects * sizeof(void*));
  const size_t tables = objects * (sizeof(void*) + sizeof(uint16_t));
  Random random;
  size_t live = 0;
  const auto replace = [&](size_t i) {
    free(held[i]);
    live -= size_of[i];
    size_of[i] = sizes.pick(random);
    live += size_of[i];
    held[i] = allocate(size_of[i]);
    memset(held[i], 1, size_of[i]);
  };
  for (size_t i = 0; i < objects; ++i) replace(i);
  Result result;
  result.operations = 8 * objects;
  const double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (uint64_t i = 0; i < result.operations; ++i)
    replace(random.below(static_cast<uint32_t>(objects)));
  result.ns = result.mean_ns =
      (seconds(CLOCK_MONOTONIC) - start) * 1e9 / static_cast<double>(result.operations);
  result.cpu_ns = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e9 / double(result.operations);
  const auto over_live = [&](size_t now, size_t then) {
    return (difference(now, then) - static_cast<double>(tables)) / static_cast<double>(live);
  };
  int end =
      snprintf(result.extra, sizeof(result.extra), ", \"live\": %zu, \"footprint_over_live\": %.4f",
               live, over_live(rss(), before));
  if (charged != 0)
    snprintf(result.extra + end, sizeof(result.extra) - static_cast<size_t>(end),
             ", \"charge_over_live\": %.4f", over_live(charge(), charged));
  return result;
}

// One thread allocates, another frees; batches of pointers go through a ring between them.
struct Ring {
  static constexpr uint64_t kSlots = 64, kObjects = 128;
  void* slot[kSlots][kObjects];
  alignas(64) std::atomic<uint64_t> written{0};
  alignas(64) std::atomic<uint64_t> consumed{0};
  alignas(64) std::atomic<bool> ended{false};

  // The at-th batch; at counts from 0.
  void write(uint64_t at, size_t size) {
    while (at - consumed.load(std::memory_order_acquire) == kSlots) sched_yield();
    for (void*& p : slot[at % kSlots]) p = allocate(size);
    written.store(at + 1, std::memory_order_release);
  }
};
Ring ring;

void* consume(void* of_ring) {
  Ring& ring = *static_cast<Ring*>(of_ring);
  for (uint64_t at = 0;;) {
    if (ring.written.load(std::memory_order_acquire) == at) {
      if (ring.ended.load(std::memory_order_acquire)) return nullptr;
      sched_yield();
      continue;
    }
    for (void* p : ring.slot[at % Ring::kSlots]) free(p);
    ring.consumed.store(++at, std::memory_order_release);
  }
}

// ns: wall time an object, allocated here and freed there.
Result remote_free(size_t size) {
  pthread_t consumer;
  pthread_create(&consumer, nullptr, consume, &ring);
  uint64_t at = 0;
  Result result = measure(
      [&](uint64_t n) {
        for (uint64_t done = 0; done < n; done += Ring::kObjects) ring.write(at++, size);
        while (ring.consumed.load(std::memory_order_acquire) != at) sched_yield();
      },
      Ring::kObjects);
  ring.ended.store(true, std::memory_order_release);
  pthread_join(consumer, nullptr);
  return result;
}

void start_thread(pthread_t* thread, void* (*run)(void*), void* argument) {
  if (pthread_create(thread, nullptr, run, argument) == 0) return;
  fprintf(stderr, "malloc_bench: cannot start a thread; raise `ulimit -u`\n");
  exit(1);
}

// Of a body that runs once, threads included: wall and CPU time an operation.
template <typename F>
Result measure_once(uint64_t operations, F&& body) {
  Result result;
  result.operations = operations;
  const double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  body();
  const double each = 1e9 / static_cast<double>(operations);
  result.ns = result.mean_ns = (seconds(CLOCK_MONOTONIC) - start) * each;
  result.cpu_ns = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * each;
  return result;
}

size_t processors() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0
             ? static_cast<size_t>(CPU_COUNT(&allowed))
             : 1;
}

constexpr uint64_t kBatchesOfAPair = 100'000;
constexpr size_t kMostPairs = 256;

void* produce(void* of_ring) {
  Ring& ring = *static_cast<Ring*>(of_ring);
  for (uint64_t at = 0; at < kBatchesOfAPair; ++at) ring.write(at, 64);
  ring.ended.store(true, std::memory_order_release);
  return nullptr;
}

// ns: wall time an object, over all pairs of threads; a pair for each two processors.
Result remote_free_everywhere(size_t) {
  static Ring rings[kMostPairs];
  static pthread_t thread[2 * kMostPairs];
  const size_t wanted = processors() / 2;
  const size_t pairs = wanted == 0 ? 1 : wanted < kMostPairs ? wanted : kMostPairs;
  return measure_once(pairs * kBatchesOfAPair * Ring::kObjects, [&] {
    for (size_t i = 0; i < pairs; ++i) {
      start_thread(&thread[2 * i], produce, &rings[i]);
      start_thread(&thread[2 * i + 1], consume, &rings[i]);
    }
    for (size_t i = 0; i < 2 * pairs; ++i) pthread_join(thread[i], nullptr);
  });
}

// --- As many threads as processors, and more ---

constexpr size_t kMostThreads = 1024;

size_t thread_a_processor() {
  return processors() < kMostThreads ? processors() : kMostThreads;
}

// Until all have ended.
void run_in_threads(size_t threads, void* (*run)(void*), void* argument) {
  static pthread_t thread[kMostThreads];
  for (size_t t = 0; t < threads; ++t) start_thread(&thread[t], run, argument);
  for (size_t t = 0; t < threads; ++t) pthread_join(thread[t], nullptr);
}

constexpr uint64_t kOperationsInThreads = 6'000'000;

const Sizes thread_sizes;
std::atomic<uint32_t> threads_begun{0};

// Replaces its own objects at random; each thread has other ones.
void* replace_own(void* operations) {
  constexpr uint32_t kObjects = 700;
  void* held[kObjects] = {};
  Random random;
  for (uint32_t skip = 100 * ++threads_begun; skip != 0; --skip) random.below(1);
  for (uint64_t n = *static_cast<uint64_t*>(operations); n != 0; --n) {
    void*& slot = held[random.below(kObjects)];
    free(slot);
    slot = allocate(thread_sizes.pick(random));
  }
  for (void* p : held) free(p);
  return nullptr;
}

// ns: wall time of a replacement over all threads, from the start of the first one to the end of
// the last: short threads pay for their caches, too.
Result churn_in_threads(size_t wanted) {
  const size_t threads = wanted != 0 ? wanted : thread_a_processor();
  uint64_t each = kOperationsInThreads / threads;
  return measure_once(each * threads, [&] { run_in_threads(threads, replace_own, &each); });
}

constexpr uint64_t kBuffersOfAThread = 1'600'000;

void* use_own_buffers(void* size) {
  use_buffers(*static_cast<size_t*>(size), kBuffersOfAThread);
  return nullptr;
}

// ns: wall time of a pair of one thread, while all others do the same.
Result buffers_in_threads(size_t size) {
  return measure_once(kBuffersOfAThread,
                      [&] { run_in_threads(thread_a_processor(), use_own_buffers, &size); });
}

constexpr uint64_t kBatchesBytes = uint64_t{8} << 30;
constexpr size_t kBatchBytes = size_t{2} << 20;

// Requests that hold 2 MiB in objects of one size, more than a thread caches, and free them.
void* use_batches(void* size_of_object) {
  const size_t size = *static_cast<size_t*>(size_of_object), objects = kBatchBytes / size;
  auto** held = static_cast<void**>(malloc(objects * sizeof(void*)));
  for (uint64_t batch = 0; batch < kBatchesBytes / kBatchBytes; ++batch) {
    for (size_t i = 0; i < objects; ++i) held[i] = allocate(size);
    for (size_t i = 0; i < objects; ++i) free(held[i]);
  }
  free(held);
  return nullptr;
}

Result batches_in_threads(size_t size) {
  return measure_once(kBatchesBytes / size,
                      [&] { run_in_threads(thread_a_processor(), use_batches, &size); });
}

// --- Many threads that allocate in every class once and sleep ---

constexpr int kThreads = 500;
pthread_barrier_t begun, may_allocate, have_allocated, may_end;

// Eight sizes a doubling from 16 bytes to 32 KiB: at least one of every class of the peers.
constexpr int kClassSizes = 11 * 8 + 1;
size_t class_size(int i) {
  return (size_t{16} << (i / 8)) * (8 + i % 8) / 8;
}

void* allocate_and_sleep(void*) {
  pthread_barrier_wait(&begun);
  pthread_barrier_wait(&may_allocate);
  for (int i = 0; i < kClassSizes; ++i) free(allocate(class_size(i)));
  pthread_barrier_wait(&have_allocated);
  pthread_barrier_wait(&may_end);
  return nullptr;
}

// ns: wall time a pair over all threads. Bytes a thread: what its allocations added to RSS, at
// once and after half a second. Its stack counts as far as malloc itself touched it anew.
Result idle_threads(size_t) {
  static pthread_t thread[kThreads];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  for (pthread_barrier_t* b : {&begun, &may_allocate, &have_allocated, &may_end})
    pthread_barrier_init(b, nullptr, kThreads + 1);
  for (pthread_t& t : thread)
    if (pthread_create(&t, &attributes, allocate_and_sleep, nullptr) != 0) {
      fprintf(stderr, "malloc_bench: cannot start %d threads; raise `ulimit -u`\n", kThreads);
      exit(1);
    }
  pthread_barrier_wait(&begun);
  const size_t before = rss(), charged = charge();
  const double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  pthread_barrier_wait(&may_allocate);
  pthread_barrier_wait(&have_allocated);
  Result result;
  result.operations = uint64_t{kThreads} * kClassSizes;
  result.ns = result.mean_ns =
      (seconds(CLOCK_MONOTONIC) - start) * 1e9 / static_cast<double>(result.operations);
  result.cpu_ns = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e9 / double(result.operations);
  const size_t at_once = rss();
  usleep(500'000);
  const size_t later = rss(), charged_later = charge();
  const auto each = [](size_t now, size_t then) { return difference(now, then) / kThreads; };
  int end = snprintf(result.extra, sizeof(result.extra),
                     ", \"bytes_per_thread\": %.0f, \"bytes_per_thread_later\": %.0f",
                     each(at_once, before), each(later, before));
  if (charged != 0)
    snprintf(result.extra + end, sizeof(result.extra) - static_cast<size_t>(end),
             ", \"charge_per_thread_later\": %.0f", each(charged_later, charged));
  pthread_barrier_wait(&may_end);
  for (pthread_t t : thread) pthread_join(t, nullptr);
  return result;
}

// --- Growth, zeroed and large memory ---

// ns: one call of realloc while a buffer grows from 16 bytes to 1 MiB by 1.3 at a time.
Result realloc_growth(size_t) {
  return measure(
      [](uint64_t n) {
        char* p = nullptr;
        size_t size = 16;
        for (uint64_t i = 0; i < n; ++i) {
          p = static_cast<char*>(realloc(p, size));
          escape(p);
          p[size - 1] = 1;
          size += size * 3 / 10;
          if (size <= 1 << 20) continue;
          free(p);
          p = nullptr;
          size = 16;
        }
        free(p);
      },
      64);
}

Result zeroed(size_t size) {
  return measure([size](uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      auto* p = static_cast<char*>(calloc(1, size));
      escape(p);
      *p = 1;
      free(p);
    }
  });
}

// Each page of it is written, as programs do with what they ask for.
template <typename Allocate>
Result touch(size_t size, Allocate&& allocate) {
  return measure([&](uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
      auto* p = static_cast<char*>(allocate());
      for (size_t at = 0; at < size; at += 4096) p[at] = 1;
      escape(p);
      free(p);
    }
  });
}

Result touched(size_t size) {
  return touch(size, [size] { return malloc(size); });
}

Result zeroed_touched(size_t size) {
  return touch(size, [size] { return calloc(1, size); });
}

struct Row {
  const char* name;
  Result (*run)(size_t);
  size_t argument;
  const char* help;
};

constexpr size_t kMiB = 1 << 20;
const Row rows[] = {
    {"pair_16", pair, 16, "malloc and free of 16 bytes"},
    {"pair_64", pair, 64, "malloc and free of 64 bytes"},
    {"pair_512", pair, 512, "malloc and free of 512 bytes"},
    {"pair_4096", pair, 4096, "malloc and free of 4 KiB"},
    {"pair_65536", pair, 65536, "malloc and free of 64 KiB"},
    {"new_delete_64", new_delete, 64, "new and sized delete of 64 bytes"},
    {"batch_fifo", batch, 0, "1,000 of 64 bytes, freed in order (a pair)"},
    {"batch_lifo", batch, 1, "1,000 of 64 bytes, freed in reverse (a pair)"},
    {"churn_10k", churn, 10'000, "replace one of 10,000 objects of 16..1024 bytes"},
    {"churn_1m", churn, 1'000'000, "replace one of 1,000,000 objects of 16..1024 bytes"},
    {"remote_free", remote_free, 64, "64 bytes, freed by another thread"},
    {"remote_free_all", remote_free_everywhere, 0,
     "64 bytes, a pair of threads for each two processors"},
    {"threads_all", churn_in_threads, 0,
     "a thread a processor, each replaces one of its 700 objects"},
    {"threads_32", churn_in_threads, 32, "32 threads, each replaces one of its 700 objects"},
    {"threads_200", churn_in_threads, 200, "200 threads, each replaces one of its 700 objects"},
    {"batch_1k_all", batches_in_threads, 1 << 10,
     "2 MiB in objects of 1 KiB, freed in order, a thread a processor (a pair)"},
    {"batch_16k_all", batches_in_threads, 16 << 10, "the same of 16 KiB"},
    {"threads_500", idle_threads, 0, "500 threads, every class once, then idle"},
    {"realloc_growth", realloc_growth, 0, "a step of growth from 16 bytes to 1 MiB"},
    {"calloc_64", zeroed, 64, "calloc and free of 64 bytes"},
    {"calloc_4096", zeroed, 4096, "calloc and free of 4 KiB"},
    {"calloc_1m", zeroed, kMiB, "calloc and free of 1 MiB"},
    {"calloc_1m_touched", zeroed_touched, kMiB, "calloc and free of 1 MiB, each 4 KiB written"},
    {"hundred_8k", hundred, 8 << 10, "100 of 8 KiB, freed in order (a pair)"},
    {"hundred_16k", hundred, 16 << 10, "100 of 16 KiB, freed in order (a pair)"},
    {"hundred_64k", hundred, 64 << 10, "100 of 64 KiB, freed in order (a pair)"},
    {"buffers_16k", buffers, 16 << 10, "16 of 16 KiB, freed in reverse (a pair)"},
    {"buffers_64k", buffers, 64 << 10, "16 of 64 KiB, freed in reverse (a pair)"},
    {"buffers_256k", buffers, 256 << 10, "16 of 256 KiB, freed in reverse (a pair)"},
    {"buffers_64k_all", buffers_in_threads, 64 << 10, "the same of 64 KiB, a thread a processor"},
    {"buffers_256k_all", buffers_in_threads, 256 << 10,
     "the same of 256 KiB, a thread a processor"},
    {"large_1m", pair, kMiB, "malloc and free of 1 MiB"},
    {"large_8m", pair, 8 * kMiB, "malloc and free of 8 MiB"},
    {"large_64m", pair, 64 * kMiB, "malloc and free of 64 MiB"},
    {"large_1m_touched", touched, kMiB, "1 MiB, each 4 KiB written"},
    {"large_8m_touched", touched, 8 * kMiB, "8 MiB, each 4 KiB written"},
    {"large_64m_touched", touched, 64 * kMiB, "64 MiB, each 4 KiB written"},
    {"footprint", footprint, 200'000, "replace one of 200,000; RSS over live"},
    {"empty", empty, 0, "the loop alone"},
};

int list() {
  for (const Row& row : rows) printf("%-18s %s\n", row.name, row.help);
  return 0;
}

int usage(FILE* to, int status) {
  fprintf(to,
          "usage: [LD_PRELOAD=lib.so] malloc_bench [--seconds S] ROW... | --list\n"
          "Times ROW on the allocator that serves this process; one line of JSON a row.\n"
          "For clean memory figures run one row a process.\n");
  return status;
}

void run(const Row& row) {
  const Result r = row.run(row.argument);
  printf(
      "{\"row\": \"%s\", \"ns\": %.3f, \"mean_ns\": %.3f, \"cpu_ns\": %.3f, "
      "\"operations\": %lu, \"rss\": %zu, \"peak_rss\": %zu%s}\n",
      row.name, r.ns, r.mean_ns, r.cpu_ns, r.operations, rss(), status_bytes("VmHWM:"), r.extra);
  fflush(stdout);
}

const Row* find(const char* name) {
  for (const Row& row : rows)
    if (strcmp(row.name, name) == 0) return &row;
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return usage(stderr, 2);
  int at = 1;
  if (strcmp(argv[1], "--help") == 0) return usage(stdout, 0);
  if (strcmp(argv[1], "--list") == 0) return list();
  if (strcmp(argv[1], "--seconds") == 0 && argc > 3) budget = atof(argv[2]), at = 3;
  for (int i = at; i < argc; ++i)
    if (find(argv[i]) == nullptr) {
      fprintf(stderr, "malloc_bench: no row %s; malloc_bench --list names them\n", argv[i]);
      return 2;
    }
  for (int i = at; i < argc; ++i) run(*find(argv[i]));
  return 0;
}
