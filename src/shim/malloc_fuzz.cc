// SPDX-License-Identifier: Apache-2.0
// All exported calls on several threads, in any order, against a naive oracle: contents kept,
// calloc zeroed, no overlap, the alignment asked for, the usable size as promised, errno, and at
// the end of each input an empty heap that is consistent. The calls are those of src/shim, each
// under its name with `fuzzed_` before it (src/shim/CMakeLists.txt), so that a sanitizer's own
// malloc serves the twin itself.
//
//   first byte    bit 0: threads run freely; else one step after the other, as the input says
//   then steps of eight bytes: thread, what, slot of the object, and five bytes for what
//
// LLAMALLOC_CONF chooses hardened mode, a model, and so on: scripts/fuzz.sh has the list.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "runtime/process.h"
#include "shim/fuzzed_calls.h"

namespace llamalloc {
namespace {

constexpr int kThreads = 3;
constexpr uint32_t kSlots = 64;
constexpr size_t kStepBytes = 8;
constexpr size_t kAbsurd = size_t{1} << 47;  // no process has that much address space

// What an allocating call is asked for.
struct Request {
  size_t size;
  size_t alignment;  // a power of two
  Hint hint;
};

// Each call that makes an object. promised: the alignment and size that the call gives.
struct Maker {
  void* (*make)(const Request&);
  bool aligned;  // by the request's alignment
};

template <SizedPointer (*make)(const Request&)>
void* checked(const Request& r) {
  const SizedPointer made = make(r);
  CHECK_EQ(made.n, do_usable_size(made.p));
  return made.p;
}

void* by_posix_memalign(const Request& r) {
  void* const before = reinterpret_cast<void*>(1);
  void* p = before;
  errno = 77;
  const int error = do_posix_memalign(&p, r.alignment < 8 ? 8 : r.alignment, r.size);
  CHECK_EQ(errno, 77);
  CHECK(error == 0 ? p != nullptr : error == ENOMEM && p == before);
  if (error != 0) errno = error;
  return error == 0 ? p : nullptr;
}

void* by_calloc(const Request& r) {
  const size_t count = r.hint % 7 + 1;
  const size_t each = r.size / count + (r.size % count != 0);
  char* p = static_cast<char*>(do_calloc(count, each));
  const size_t bytes = count * each, step = bytes > 65536 ? 509 : 1;
  for (size_t at = 0; p != nullptr && at < bytes; at += step) CHECK_EQ(p[at], 0);
  CHECK(p == nullptr || bytes == 0 || p[bytes - 1] == 0);
  return p;
}

#define MAKE(call) [](const Request& r) -> void* { return (void)r, call; }
#define MAKE_SIZED(call) checked<[](const Request& r) -> SizedPointer { return call; }>
const Maker kMakers[] = {
    {MAKE(do_malloc(r.size)), false},
    {by_calloc, false},
    {MAKE(do_realloc(nullptr, r.size)), false},
    {MAKE(do_reallocarray(nullptr, 1, r.size)), false},
    {MAKE(do_aligned_alloc(r.alignment, r.size)), true},
    {MAKE(do_memalign(r.alignment, r.size)), true},
    {by_posix_memalign, true},
    {MAKE(do_valloc(r.size)), false},
    {MAKE(do_pvalloc(r.size)), false},
    {MAKE(do_libc_malloc(r.size)), false},
    {MAKE(do_libc_memalign(r.alignment, r.size)), true},
    {MAKE(new_plain(r.size)), false},
    {MAKE(new_nothrow(r.size, std::nothrow)), false},
    {MAKE(new_aligned(r.size, Align{r.alignment})), true},
    {MAKE(new_aligned_nothrow(r.size, Align{r.alignment}, std::nothrow)), true},
    {MAKE(array_plain(r.size)), false},
    {MAKE(array_nothrow(r.size, std::nothrow)), false},
    {MAKE(array_aligned(r.size, Align{r.alignment})), true},
    {MAKE(array_aligned_nothrow(r.size, Align{r.alignment}, std::nothrow)), true},
    {MAKE(new_hint(r.size, r.hint)), false},
    {MAKE(new_nothrow_hint(r.size, std::nothrow, r.hint)), false},
    {MAKE(new_aligned_hint(r.size, Align{r.alignment}, r.hint)), true},
    {MAKE(array_hint(r.size, r.hint)), false},
    {MAKE(array_aligned_nothrow_hint(r.size, Align{r.alignment}, std::nothrow, r.hint)), true},
    {MAKE_SIZED(new_sized(r.size)), false},
    {MAKE_SIZED(new_sized_aligned(r.size, Align{r.alignment})), true},
    {MAKE_SIZED(new_sized_hint(r.size, r.hint)), false},
};
constexpr uint32_t kMakerCount = sizeof(kMakers) / sizeof(kMakers[0]);

struct Object {
  char* start = nullptr;
  size_t asked = 0;
  size_t usable = 0;
  size_t alignment = 1;
  char mark = 0;
};

using Ender = void (*)(const Object&);
#define END(call) [](const Object& o) { call; }
const Ender kEnders[] = {
    END(do_free(o.start)),
    END(do_cfree(o.start)),
    END(do_libc_free(o.start)),
    END(do_free_sized(o.start, o.asked)),
    END(do_free_aligned_sized(o.start, o.alignment, o.asked)),
    END(do_sdallocx(o.start, o.asked, 0)),
    END(delete_plain(o.start)),
    END(delete_sized(o.start, o.asked)),
    END(delete_nothrow(o.start, std::nothrow)),
    END(delete_aligned(o.start, Align{o.alignment})),
    END(delete_sized_aligned(o.start, o.asked, Align{o.alignment})),
    END(array_delete(o.start)),
    END(array_delete_sized(o.start, o.asked)),
    END(array_delete_sized_aligned(o.start, o.asked, Align{o.alignment})),
    END(CHECK(do_realloc(o.start, 0) == nullptr)),
    END(CHECK(do_reallocarray(o.start, 0, 9) == nullptr)),
};
constexpr uint32_t kEnderCount = sizeof(kEnders) / sizeof(kEnders[0]);

// The bytes by which an object is known: its first 2 KiB, some in between, its last 64; those of
// them below `limit`.
template <typename F>
void at_marks(const Object& object, size_t limit, F&& f) {
  const size_t n = object.usable, step = n > (size_t{1} << 20) ? 65521 : 1021;
  limit = std::min(limit, n);
  size_t at = 0;
  for (; at < std::min<size_t>(limit, 2048); ++at) f(object.start[at]);
  for (; at < limit; at += step) f(object.start[at]);
  for (at = n < 64 ? 0 : n - 64; at < limit; ++at) f(object.start[at]);
}

// What is live, by address; each call of the allocator lies between forget and note.
class Live {
 public:
  void note(const Object& object) {
    const std::lock_guard guard(lock_);
    const size_t bytes = std::max<size_t>(object.usable, 1);
    const auto next = ends_.lower_bound(object.start);
    CHECK(next == ends_.end() || object.start + bytes <= next->first);
    CHECK(next == ends_.begin() || std::prev(next)->second <= object.start);
    ends_[object.start] = object.start + bytes;
  }
  void forget(const Object& object) {
    const std::lock_guard guard(lock_);
    CHECK_EQ(ends_.erase(object.start), size_t{1});
  }

 private:
  std::mutex lock_;
  std::map<char*, char*> ends_;
};

struct Slot {
  std::mutex lock;
  Object object;
};

class Run {
 public:
  explicit Run(FuzzInput input) {
    free_running_ = input.flag();
    while (input.left() >= kStepBytes) {
      steps_.push_back(input);
      for (size_t i = 0; i < kStepBytes; ++i) input.byte();
    }
  }

  void run() {
    std::vector<std::thread> threads;
    for (int t = 1; t < kThreads; ++t) threads.emplace_back([this, t] { work(t); });
    work(0);
    for (std::thread& thread : threads) thread.join();
    for (Slot& slot : slots_)
      if (slot.object.start != nullptr) end(slot, 0);
    expect_empty_heap();
  }

 private:
  // Thread t does its steps: at their turn, or as fast as it can.
  void work(int t) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      FuzzInput input = steps_[i];
      if (input.byte() % kThreads != t) continue;
      while (!free_running_) {
        const size_t turn = turn_.load();
        if (turn == i) break;
        turn_.wait(turn);
      }
      step(input);
      if (free_running_) continue;
      turn_ = i + 1;
      turn_.notify_all();
    }
  }

  void step(FuzzInput input) {
    const uint8_t what = input.byte();
    Slot& slot = slots_[input.byte() % kSlots];
    if (what >= 240) return manage(input);
    const std::lock_guard guard(slot.lock);
    if (slot.object.start == nullptr) return make(slot, input);
    verify(slot.object, slot.object.usable);
    if (what < 120) return end(slot, input.byte());
    if (what < 200) return resize(slot, input);
    CHECK_EQ(do_usable_size(slot.object.start), slot.object.usable);
    CHECK_EQ(do_malloc_size(slot.object.start), slot.object.usable);
  }

  static size_t size_from(FuzzInput& input) {
    const uint8_t kind = input.byte();
    if (kind < 70) return kind % 4 * 16;  // few classes: slots come again soon
    if (kind < 100) return input.byte();
    if (kind < 220) return input.size(18);
    if (kind < 250) return input.size(22);
    constexpr size_t kSizes[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX / 4, kAbsurd};
    return kSizes[kind % 5] - (kind % 5 == 4 ? 0 : input.byte());
  }

  static void verify(const Object& object, size_t limit) {
    at_marks(object, limit, [&](char byte) { CHECK_EQ(byte, object.mark); });
  }

  void take(Slot& slot, void* p, size_t asked, size_t alignment) {
    Object& object = slot.object;
    object.start = static_cast<char*>(p);
    object.asked = asked;
    object.alignment = alignment;
    object.usable = do_usable_size(p);
    object.mark = static_cast<char>(marks_.fetch_add(1));
    CHECK_LE(asked, object.usable);
    CHECK_EQ(reinterpret_cast<uintptr_t>(p) % std::max<size_t>(alignment, 16), uintptr_t{0});
    live_.note(object);
    at_marks(object, object.usable, [&](char& byte) { byte = object.mark; });
  }

  void make(Slot& slot, FuzzInput& input) {
    const uint32_t maker = input.below(kMakerCount);
    Request r{size_from(input), size_t{1} << input.byte() % 25, 0};
    r.hint = static_cast<Hint>(input.byte());
    void* p = nullptr;
    errno = 0;
    try {
      p = kMakers[maker].make(r);
    } catch (const std::bad_alloc&) {
      errno = ENOMEM;
    }
    CHECK(r.size < kAbsurd ? p != nullptr : p == nullptr && errno == ENOMEM);
    if (p == nullptr) return;
    if (kMakers[maker].make == by_calloc) {  // what was asked for is the product
      const size_t count = r.hint % 7 + 1;
      r.size = (r.size / count + (r.size % count != 0)) * count;
    }
    if (maker == 8) r.size = r.size == 0 ? 4096 : align_up(r.size, 4096);  // pvalloc
    const size_t alignment = kMakers[maker].aligned     ? r.alignment
                             : maker == 7 || maker == 8 ? 4096
                                                        : 16;
    take(slot, p, r.size, alignment);
    // Samples of like sizes share slots.
    if (alignment <= 16) CHECK(do_nallocx(r.size, 4) <= slot.object.usable);
  }

  void end(Slot& slot, uint8_t how) {
    verify(slot.object, slot.object.usable);
    live_.forget(slot.object);
    errno = 99;
    kEnders[how % kEnderCount](slot.object);
    CHECK_EQ(errno, 99);
    slot.object = {};
  }

  void resize(Slot& slot, FuzzInput& input) {
    const size_t size = std::max<size_t>(size_from(input), 1);
    const Object before = slot.object;
    live_.forget(before);
    errno = 0;
    void* p =
        input.flag() ? do_realloc(before.start, size) : do_reallocarray(before.start, size, 1);
    if (p == nullptr) {
      CHECK(size >= kAbsurd && errno == ENOMEM);
      return live_.note(before);
    }
    CHECK_LT(size, kAbsurd);
    Object moved = before;
    moved.start = static_cast<char*>(p);
    verify(moved, std::min(before.asked, size));
    take(slot, p, size, 16);
  }

  void manage(FuzzInput& input) {
    static const char* const kIntervals[] = {"64", "1KiB", "64KiB", "512KiB"};
    static const char* const kDelays[] = {"0s", "1ms", "1s"};
    static const char* const kTags[] = {"", "parse", "query", nullptr};
    const uint8_t what = input.byte(), number = input.byte();
    const auto value = static_cast<int>(number);
    if (what < 40) CHECK_EQ(do_set("sample_interval", kIntervals[number % 4]), 0);
    if (what < 80) CHECK_EQ(do_act("sampling", number & 1 ? "on" : "off"), 0);
    if (what >= 80 && what < 110) CHECK_EQ(do_set("release_delay", kDelays[number % 3]), 0);
    if (what >= 110 && what < 130) CHECK_EQ(do_set("retain", number & 1 ? "0" : "16MiB"), 0);
    if (what >= 130 && what < 150) do_trim(size_t{number} << 16);
    if (what >= 150 && what < 160) CHECK_EQ(do_act("release", nullptr), 0);
    if (what >= 160 && what < 190) do_tag(kTags[number % 4]);
    if (what >= 190 && what < 200) do_mallopt(-(value % 10), value);
    if (what >= 200 && what < 205)
      CHECK_LE(do_mallinfo2().uordblks, do_mallinfo2().arena + kAbsurd);
    if (what >= 205 && what < 215) read_statistics(number);
    if (what >= 215 && what < 218) write_info();
    if (what >= 218) refuse(number);
  }

  // Calls that must fail.
  static void refuse(uint8_t number) {
    errno = 0;
    void* untouched = nullptr;
    CHECK(do_aligned_alloc(3 + number * 2u, 16) == nullptr && errno == EINVAL);
    CHECK_EQ(do_posix_memalign(&untouched, 4, 16), EINVAL);
    CHECK(do_calloc(SIZE_MAX / 2 - number, 3) == nullptr && errno == ENOMEM);
    CHECK(do_reallocarray(nullptr, SIZE_MAX / 4, 8u + number) == nullptr && errno == ENOMEM);
    CHECK_EQ(do_set("retain", "12parsecs"), EINVAL);
    CHECK_EQ(do_set("model", "x"), ENOENT);
    CHECK_EQ(do_act("sampling", "perhaps"), EINVAL);
    CHECK(do_nallocx(PTRDIFF_MAX, 4) == 0);
    do_free(nullptr);
    delete_sized(nullptr, number);
    CHECK_EQ(do_usable_size(nullptr), size_t{0});
  }

  static void read_statistics(uint8_t number) {
    char text[2000];
    const size_t room = size_t{number} * 8;
    text[room < sizeof(text) ? room : 0] = 'x';
    const size_t needs = do_stats_json(text, std::min(room, sizeof(text)));
    CHECK_LT(size_t{100}, needs);
    if (room != 0) CHECK_LE(strnlen(text, sizeof(text)), std::min(room, sizeof(text)) - 1);
    if (room < sizeof(text)) CHECK(room == 0 || text[room] == 'x');
  }

  static void write_info() {
    static FILE* const nowhere = fopen("/dev/null", "w");
    CHECK_EQ(do_malloc_info(0, nowhere), 0);
  }

  static uint64_t statistic(const char* name) {
    uint64_t value = 0;
    size_t bytes = sizeof(value);
    CHECK_EQ(do_get(name, &value, &bytes), 0);
    return value;
  }

  static void expect_empty_heap() {
    do_trim(0);
    CHECK(process.heap.is_consistent());
    CHECK_EQ(statistic("bad_frees"), uint64_t{0});
    CHECK_EQ(statistic("wrong_sizes"), uint64_t{0});
    if (process.hardening.is_on()) return;  // holds freed objects back
    CHECK_EQ(statistic("allocated"), uint64_t{0});
    CHECK_EQ(statistic("mapped_directly"), uint64_t{0});
  }

  bool free_running_ = false;
  std::vector<FuzzInput> steps_;
  std::atomic<size_t> turn_{0};
  std::atomic<uint32_t> marks_{1};
  Slot slots_[kSlots];
  Live live_;
};

}  // namespace
}  // namespace llamalloc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  llamalloc::Run({data, size}).run();
  return 0;
}
