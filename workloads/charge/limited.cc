// SPDX-License-Identifier: Apache-2.0
// A service whose load comes in bursts, for a control group with a tight limit.
//
//   live           /|   /|   /|      half of --live stays, and a few of its objects are replaced
//         half ____/ |__/ |__/ |__   at random during each burst; the other half is the burst:
//                                    small, medium or large objects in turn, filled, then freed
//
// Whatever the allocator keeps after a burst is missing in the next one, of other sizes: above the
// limit the kernel kills the process. Measures each call of malloc and free. Prints one line of
// JSON; `live` is the most payload, tables included; times are in ns.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "../load_program.h"

const char* const kProgram = "limited";

namespace {

struct Settings {
  size_t live = 200 << 20, bursts = 20, churn = 100, pause_ms = 50;
  bool wait = false;
};

uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(since).count());
}

// Durations in 16 steps to each doubling.
class Histogram {
 public:
  void add(uint64_t ns) {
    ++counts_[index(ns)];
    ++count_;
    most_ = std::max(most_, ns);
  }
  // The upper end of the step that holds the part-th smallest.
  uint64_t quantile(double part) const {
    const double wanted = part * static_cast<double>(count_);
    double seen = 0;
    for (size_t i = 0; i < kSteps; ++i) {
      if ((seen += static_cast<double>(counts_[i])) >= wanted) return end(i);
    }
    return most_;
  }
  uint64_t most() const { return most_; }
  size_t count() const { return count_; }

 private:
  static constexpr size_t kSteps = 16 * 61;
  static size_t index(uint64_t ns) {
    if (ns < 16) return ns;
    const auto shift = static_cast<size_t>(std::bit_width(ns)) - 5;
    return 16 * shift + (ns >> shift);
  }
  static uint64_t end(size_t i) { return i < 32 ? i : ((i % 16 + 17) << (i / 16 - 1)) - 1; }

  size_t counts_[kSteps] = {};
  size_t count_ = 0;
  uint64_t most_ = 0;
};

struct Times {
  Histogram malloc, free;
};

struct Object {
  char* memory;
  size_t size;
};

class Objects {
 public:
  Objects(size_t capacity, Times& times) : table_(capacity), capacity_(capacity), times_(times) {}

  bool add(size_t size) {
    if (count_ == capacity_) return false;
    table_[count_++] = made(size);
    return true;
  }
  void replace(size_t i, size_t size) {
    drop(table_[i]);
    table_[i] = made(size);
  }
  void clear() {
    while (count_ > 0) drop(table_[--count_]);
  }
  size_t count() const { return count_; }
  // Payload, and the part of the table that is in use.
  size_t bytes() const { return bytes_ + count_ * sizeof(Object); }

 private:
  Object made(size_t size) {
    const uint64_t start = now_ns();
    void* memory = std::malloc(size);
    times_.malloc.add(now_ns() - start);
    if (!memory) out_of_memory();
    std::memset(memory, 1, size);
    bytes_ += size;
    return {static_cast<char*>(memory), size};
  }
  void drop(Object& object) {
    const uint64_t start = now_ns();
    std::free(object.memory);
    times_.free.add(now_ns() - start);
    bytes_ -= object.size;
  }

  Table<Object> table_;
  size_t capacity_, count_ = 0, bytes_ = 0;
  Times& times_;
};

// Sizes of a burst, by its number.
size_t burst_size(size_t burst, Random& random) {
  switch (burst % 3) {
    case 0:
      return 16 + random.below(500);
    case 1:
      return (4 << 10) + random.below(60 << 10);
    default:
      return (400 << 10) + random.below(4 << 20);
  }
}

class Service {
 public:
  explicit Service(const Settings& settings)
      : settings_(settings), staying_(half() / 16, times_), burst_(half() / 16, times_) {}

  void run() {
    while (staying_.bytes() < half()) staying_.add(session_size());
    for (size_t i = 0; i < settings_.bursts; ++i) {
      burst(i);
      usleep(static_cast<useconds_t>(settings_.pause_ms * 1000));
    }
  }
  void print(double seconds) const {
    std::printf("{\"live\": %zu, \"seconds\": %.3f, \"calls\": %zu", live_, seconds,
                times_.malloc.count());
    print_times("malloc", times_.malloc);
    print_times("free", times_.free);
    std::printf("}\n");
  }

 private:
  size_t half() const { return settings_.live / 2; }
  size_t session_size() { return 32 + random_.below(2000); }
  // --churn of the objects that stay are replaced, evenly over the burst's bytes.
  void burst(size_t number) {
    const size_t step = half() / settings_.churn;
    for (size_t due = step; staying_.bytes() + burst_.bytes() < settings_.live;) {
      if (!burst_.add(burst_size(number, random_))) break;
      for (; burst_.bytes() >= due; due += step) {
        staying_.replace(random_.below(staying_.count()), session_size());
      }
      live_ = std::max(live_, staying_.bytes() + burst_.bytes());
    }
    burst_.clear();
  }
  static void print_times(const char* name, const Histogram& of) {
    std::printf(", \"%s_p50\": %lu, \"%s_p999\": %lu, \"%s_most\": %lu", name, of.quantile(0.5),
                name, of.quantile(0.999), name, of.most());
  }

  const Settings& settings_;
  Times times_;
  Random random_;
  Objects staying_, burst_;
  size_t live_ = 0;
};

const char kHelp[] =
    "usage: limited [--live MiB] [--bursts N] [--churn N] [--pause ms] [--wait]\n"
    "\n"
    "Half of --live (200) MiB stays; the other half comes in --bursts (20) of small, medium and\n"
    "large objects in turn, each freed at once, --pause (50) ms apart. During each, --churn (100)\n"
    "of the objects that stay are replaced by others.\n"
    "--wait: stay until standard input ends, to be measured.\n";

Settings parse(char** argv) {
  Settings s;
  for (Words words(argv, kHelp); words.next();) {
    if (words.is("--wait"))
      s.wait = true;
    else if (words.is("--live"))
      s.live = words.mebibytes();
    else if (words.is("--bursts"))
      s.bursts = words.number();
    else if (words.is("--churn"))
      s.churn = words.number();
    else if (words.is("--pause"))
      s.pause_ms = words.number();
    else
      misused(words.word());
  }
  return s;
}

}  // namespace

int main(int, char** argv) {
  const Settings settings = parse(argv);
  static Service service(settings);
  const uint64_t start = now_ns();
  service.run();
  service.print(static_cast<double>(now_ns() - start) * 1e-9);
  if (settings.wait) wait_to_be_measured();
}
