// SPDX-License-Identifier: Apache-2.0
// The load of ASPLOS 2020, section 9.6, with two allocation sites that are told apart in a chosen
// way (load.h), and a load whose lives no site tells.
//
//   fill   --peak MiB of 64-byte objects, --survivors KiB of them of the other kind, evenly mixed
//   drop   every temporary object is freed; the survivors pin whatever page they were put on
//
//   --warm MiB: a small wave comes first, and three seconds of rest, in which a process may learn
//   --evict: objects of 16 to 1,024 bytes and of both kinds fill --peak MiB, then random objects
//   are replaced by others, and in the end three of four are freed at random.
//
// Prints one line of JSON. With --wait it then stays until its standard input ends. All tables lie
// outside malloc and are unmapped before the line is printed.
#include "load.h"

#include <chrono>
#include <thread>

const char* const kProgram = "sites";

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t kObject = 64;
constexpr auto kRest = std::chrono::seconds(3);

struct Settings {
  size_t peak = size_t{1} << 30;
  size_t survivors = 5 << 20;
  size_t waves = 1;
  size_t warm = 0;   // bytes of the wave that comes first
  size_t pace = 0;   // bytes a second while it fills; 0: full speed
  size_t churn = 4;  // --evict: objects replaced, for each that is there
  bool evict = false;
  bool wait = false;
};

struct Outcome {
  size_t live = 0;            // bytes at the end
  double fill = 0, drop = 0;  // seconds
};

// Sleeps when more than `rate` bytes a second were made.
class Pace {
 public:
  explicit Pace(size_t rate) : rate_(rate) {}
  void made(size_t bytes) {
    bytes_ += bytes;
    if (rate_ == 0 || bytes_ < due_) return;
    due_ = bytes_ + rate_ / 1000;
    const Seconds ahead = Seconds(double(bytes_) / double(rate_)) - (Clock::now() - start_);
    if (ahead > Seconds(0)) std::this_thread::sleep_for(ahead);
  }

 private:
  size_t rate_, bytes_ = 0, due_ = 0;
  Clock::time_point start_ = Clock::now();
};

// What the next build of the program has more: a function in front of those that allocate, and a
// step in the one that fills.
#ifdef NEXT_BUILD
[[gnu::used, gnu::noinline]] double trend(const double* of, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum = sum * 0.9 + of[i];
  return sum;
}
#define NEXT_BUILD_STEP asm volatile("nop; nop; nop")
#else
#define NEXT_BUILD_STEP
#endif

// One wave of `bytes`: `survivors` objects stay.
void wave(const Settings& settings, size_t bytes, size_t survivors, Outcome& out) {
  const size_t total = bytes / kObject;
  Table<void*> objects(total);
  Pace pace(settings.pace);
  size_t temporaries = 0;
  const auto start = Clock::now();
  for (size_t i = 0; i < total; ++i) {
    // The i-th object stays if the rounded share of survivors grows with it.
    const bool stays = (i + 1) * survivors / total > i * survivors / total;
    const Kind kind = opaque(static_cast<Kind>(stays));
    void* object = make(kind, kObject);
    NEXT_BUILD_STEP;
    if (kind == Kind::temporary) objects[temporaries++] = object;
    pace.made(kObject);
  }
  const auto full = Clock::now();
  for (size_t i = 0; i < temporaries; ++i) release(objects[i]);
  out.live += survivors * kObject;
  out.fill += Seconds(full - start).count();
  out.drop += Seconds(Clock::now() - full).count();
}

Outcome waves(const Settings& settings) {
  Outcome out;
  if (settings.warm > 0) {
    const size_t share = settings.peak / settings.warm;
    wave(settings, settings.warm, settings.survivors / kObject / share, out);
    std::this_thread::sleep_for(kRest);
    out.fill = out.drop = 0;
  }
  for (size_t i = 0; i < settings.waves; ++i) {
    wave(settings, settings.peak, settings.survivors / kObject / settings.waves, out);
  }
  return out;
}

struct Object {
  void* at;
  size_t size;
};

// Kind and size say nothing of how long it lives.
Object random_object(Random& random) {
  const size_t size = size_t{16} << random.below(7);
  return {make(opaque(static_cast<Kind>(random.below(2))), size), size};
}

Outcome evict(const Settings& settings) {
  Outcome out;
  Random random;
  Table<Object> objects(settings.peak / 16);
  size_t count = 0, live = 0;
  const auto start = Clock::now();
  for (; live < settings.peak; live += objects[count++].size) {
    objects[count] = random_object(random);
  }
  for (size_t i = settings.churn * count; i > 0; --i) {
    Object& one = objects[random.below(count)];
    release(one.at);
    live -= one.size;
    one = random_object(random);
    live += one.size;
  }
  const auto churned = Clock::now();
  for (const size_t rest = count / 4; count > rest;) {
    Object& one = objects[random.below(count)];
    release(one.at);
    live -= one.size;
    one = objects[--count];
  }
  out.fill = Seconds(churned - start).count();
  out.drop = Seconds(Clock::now() - churned).count();
  out.live = live;
  return out;
}

const char kHelp[] =
    "usage: WAY [--peak MiB] [--survivors KiB] [--waves N] [--warm MiB] [--pace MiB]\n"
    "           [--evict] [--churn N] [--wait]\n"
    "\n"
    "Fills --peak (1024) MiB with 64-byte objects, --survivors (5120) KiB of them of the kind "
    "that\n"
    "stays, and frees the rest; in --waves (1), the survivors shared among them. --pace: so many\n"
    "MiB a second while it fills. --warm: a wave of so many MiB and three seconds of rest first.\n"
    "--evict: objects of both kinds and all sizes, replaced and "
    "freed\n"
    "at random, --churn (4) times. --wait: stay until standard input ends, to be measured.\n";

Settings parse(char** argv) {
  Settings s;
  for (Words words(argv, kHelp); words.next();) {
    if (words.is("--wait"))
      s.wait = true;
    else if (words.is("--evict"))
      s.evict = true;
    else if (words.is("--peak"))
      s.peak = words.mebibytes();
    else if (words.is("--survivors"))
      s.survivors = words.number() << 10;
    else if (words.is("--waves"))
      s.waves = words.number();
    else if (words.is("--warm"))
      s.warm = words.mebibytes();
    else if (words.is("--pace"))
      s.pace = words.mebibytes();
    else if (words.is("--churn"))
      s.churn = words.number();
    else
      misused(words.word());
  }
  if (s.survivors > s.peak) misused("--survivors above --peak");
  if (s.warm > s.peak) misused("--warm above --peak");
  return s;
}

}  // namespace

int main(int, char** argv) {
  const Settings settings = parse(argv);
  const Outcome out = settings.evict ? evict(settings) : waves(settings);
  std::printf("{\"live\": %zu, \"fill\": %.3f, \"drop\": %.3f}\n", out.live, out.fill, out.drop);
  if (settings.wait) wait_to_be_measured();
}
