// SPDX-License-Identifier: Apache-2.0
// Kinds of objects take turns: what one kind freed should serve the next.
//
//   live   base + turn   [ base ][ 9 MiB objects ]      the heap needs room for one turn only;
//                        [ base ][ 200 B objects ]      room kept for the kind that has just
//                        [ base ][ 9 MiB objects ]      been freed is a second turn in memory
//
// Each argument is a kind: sizes in bytes, by comma. A turn allocates --turn MiB of one kind, fills
// them, and frees them in order, or shuffled. With --threads the turns go round among threads, each
// of which sleeps while the others have theirs. Objects hold the pointer to the next one, so there
// are no tables. Prints one line of JSON; `live` is the most payload at any time.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "../load_program.h"

const char* const kProgram = "alternate";

namespace {

constexpr size_t kMost = 32;  // kinds, and sizes of a kind
constexpr size_t kBaseObject = 1000;

struct Kind {
  size_t sizes[kMost] = {};
  size_t count = 0;
};

struct Settings {
  Kind kinds[kMost];
  size_t kind_count = 0;
  size_t turns = 20, turn = 180 << 20, base = 28 << 20, threads = 1;
  bool shuffled = false, wait = false;
};

struct Object {
  Object* next;
};

// Objects of one kind, oldest first; or shuffled: each goes to one of many lists, which are freed
// one after the other.
class Queue {
 public:
  explicit Queue(bool shuffled) : lists_(shuffled ? kLists : 1) {}

  void fill(const Kind& kind, size_t bytes) {
    for (size_t i = 0, added = 0; added < bytes; ++i) {
      const size_t size = kind.sizes[i % kind.count];
      push(filled<Object>(size));
      added += size;
      bytes_ += size;
    }
  }
  void clear() {
    for (size_t i = 0; i < lists_; ++i) clear(heads_[i]);
    bytes_ = 0;
  }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kLists = 4096;
  struct List {
    Object *first = nullptr, *last = nullptr;
  };

  void push(Object* object) {
    List& list = heads_[random_() % lists_];
    object->next = nullptr;
    (list.last ? list.last->next : list.first) = object;
    list.last = object;
  }
  static void clear(List& list) {
    while (list.first) {
      Object* const gone = list.first;
      list.first = gone->next;
      std::free(gone);
    }
    list.last = nullptr;
  }

  const size_t lists_;
  List heads_[kLists];
  std::minstd_rand random_;
  size_t bytes_ = 0;
};

// Each thread calls take_turns() with its number.
class Turns {
 public:
  explicit Turns(const Settings& settings) : settings_(settings), turn_(settings.shuffled) {
    Kind of_base;
    of_base.sizes[of_base.count++] = kBaseObject;
    base_.fill(of_base, settings.base);
  }

  void take_turns(size_t thread) {
    for (size_t i = thread; i < settings_.turns; i += settings_.threads) {
      std::unique_lock lock(mutex_);
      is_next_.wait(lock, [&] { return next_ == i; });
      turn_.fill(settings_.kinds[i % settings_.kind_count], settings_.turn);
      live_ = std::max(live_, base_.bytes() + turn_.bytes());
      turn_.clear();
      ++next_;
      is_next_.notify_all();
    }
  }
  size_t live() const { return live_; }

 private:
  const Settings& settings_;
  std::mutex mutex_;
  std::condition_variable is_next_;
  size_t next_ = 0;
  Queue base_{false}, turn_;
  size_t live_ = 0;
};

size_t alternate(const Settings& settings) {
  Turns turns(settings);
  std::vector<std::thread> others;
  for (size_t i = 1; i < settings.threads; ++i)
    others.emplace_back([&turns, i] { turns.take_turns(i); });
  turns.take_turns(0);
  for (std::thread& other : others) other.join();
  return turns.live();
}

const char kHelp[] =
    "usage: alternate [--turns N] [--turn MiB] [--base MiB] [--threads N] [--shuffled] [--wait]\n"
    "                 SIZE[,SIZE...] ...\n"
    "\n"
    "Each argument is a kind of objects: sizes in bytes, at least 16. The kinds take turns: "
    "--turn\n"
    "(180) MiB of one are allocated, filled and freed, --turns (20) times, over --base (28) MiB\n"
    "of small objects that stay. --threads: so many (1) take turns. --shuffled: objects are freed\n"
    "in random order. --wait: stay until standard input ends, to be measured.\n";

Kind kind_of(char* text) {
  Kind kind;
  for (char* word = std::strtok(text, ","); word; word = std::strtok(nullptr, ",")) {
    const size_t size = number(word, word);
    if (size < sizeof(Object) * 2 || kind.count == kMost) misused(word);
    kind.sizes[kind.count++] = size;
  }
  if (kind.count == 0) misused("an empty kind");
  return kind;
}

Settings parse(char** argv) {
  Settings s;
  for (Words words(argv, kHelp); words.next();) {
    if (words.is("--wait"))
      s.wait = true;
    else if (words.is("--shuffled"))
      s.shuffled = true;
    else if (words.is("--turns"))
      s.turns = words.number();
    else if (words.is("--threads"))
      s.threads = words.number();
    else if (words.is("--turn"))
      s.turn = words.mebibytes();
    else if (words.is("--base"))
      s.base = words.mebibytes();
    else if (words.word()[0] == '-' || s.kind_count == kMost)
      misused(words.word());
    else
      s.kinds[s.kind_count++] = kind_of(words.word());
  }
  if (s.kind_count == 0) misused("no kind");
  if (s.threads == 0) misused("--threads 0");
  return s;
}

}  // namespace

int main(int, char** argv) {
  const Settings settings = parse(argv);
  const auto start = std::chrono::steady_clock::now();
  const size_t live = alternate(settings);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("{\"live\": %zu, \"seconds\": %.3f}\n", live, took.count());
  if (settings.wait) wait_to_be_measured();
}
