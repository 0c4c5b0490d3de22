// SPDX-License-Identifier: Apache-2.0
// Word count as a data processing pipeline in one process, with hundreds of threads.
//
//   wordcount WORDS MAPPERS REDUCERS SEED
//
//   text -> mappers (one thread a chunk) -> queues of batches of records -> reducers -> counts
//
// What it does to memory: a record a word, made by one thread and freed by another; batches; tables
// of counts that grow all along and stay until the end. The text is made, not read: words by Zipf's
// law, of 3 to 30 letters, in memory outside malloc.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

class Random {  // splitmix64
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// The text: words between blanks.
class Text {
 public:
  Text(size_t words, uint64_t seed) : capacity_(words * 32 + 1) {
    at_ = static_cast<char*>(mmap(nullptr, capacity_, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (at_ == MAP_FAILED) {
      std::fputs("wordcount: no memory for the text; ask for fewer words\n", stderr);
      std::exit(1);
    }
    Random random(seed);
    for (size_t n = 0; n < words; ++n) append(random);
  }
  std::string_view view() const { return {at_, size_}; }

 private:
  static constexpr double kVocabulary = 200'000;

  void append(Random& random) {
    Random letters(static_cast<uint64_t>(std::exp(random.unit() * std::log(kVocabulary))));
    const size_t length = 3 + letters.next() % 28 * (letters.next() % 4) / 3;
    for (size_t i = 0; i < length; ++i) at_[size_++] = 'a' + letters.next() % 26;
    at_[size_++] = ' ';
  }

  size_t capacity_, size_ = 0;
  char* at_;
};

struct Record {
  std::string word;
  size_t count;
};
using Batch = std::vector<std::unique_ptr<Record>>;

class Queue {
 public:
  void push(Batch batch) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return batches_.size() < kMost; });
    batches_.push_back(std::move(batch));
    filled_.notify_one();
  }
  // An empty batch: the end.
  Batch pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || !batches_.empty(); });
    if (batches_.empty()) return {};
    Batch batch = std::move(batches_.front());
    batches_.pop_front();
    room_.notify_one();
    return batch;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    filled_.notify_all();
  }

 private:
  static constexpr size_t kMost = 64;
  std::mutex mutex_;
  std::condition_variable filled_, room_;
  std::deque<Batch> batches_;
  bool closed_ = false;
};

using Counts = std::unordered_map<std::string, size_t>;

class Mapper {
 public:
  explicit Mapper(std::vector<Queue>& queues) : queues_(queues), batches_(queues.size()) {}

  void map(std::string_view chunk) {
    while (!chunk.empty()) {
      const size_t end = std::min(chunk.find(' '), chunk.size());
      if (end > 0) emit(chunk.substr(0, end));
      chunk.remove_prefix(std::min(end + 1, chunk.size()));
    }
    for (size_t q = 0; q < queues_.size(); ++q) flush(q);
  }

 private:
  void emit(std::string_view word) {
    const size_t q = std::hash<std::string_view>()(word) % queues_.size();
    batches_[q].push_back(std::make_unique<Record>(Record{std::string(word), 1}));
    if (batches_[q].size() == 500) flush(q);
  }
  void flush(size_t q) {
    if (!batches_[q].empty()) queues_[q].push(std::move(batches_[q]));
    batches_[q] = Batch();
  }

  std::vector<Queue>& queues_;
  std::vector<Batch> batches_;
};

void reduce(Queue& queue, Counts& counts) {
  for (Batch batch = queue.pop(); !batch.empty(); batch = queue.pop()) {
    for (const auto& record : batch) counts[record->word] += record->count;
  }
}

// Chunks that end between words.
std::vector<std::string_view> split(std::string_view text, size_t parts) {
  std::vector<std::string_view> chunks;
  for (size_t left = parts; left > 0 && !text.empty(); --left) {
    const size_t end = left == 1 ? text.size() : text.find(' ', text.size() / left);
    chunks.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size()));
  }
  return chunks;
}

size_t number(const char* text) {
  const size_t value = std::strtoull(text, nullptr, 10);
  if (value > 0) return value;
  std::fprintf(stderr, "wordcount: %s is not a number above 0\n", text);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: wordcount WORDS MAPPERS REDUCERS SEED\n", stderr);
    return 2;
  }
  const Text text(number(argv[1]), number(argv[4]));
  std::vector<Queue> queues(number(argv[3]));
  std::vector<Counts> counts(queues.size());
  std::vector<std::thread> mappers, reducers;
  for (size_t q = 0; q < queues.size(); ++q) {
    reducers.emplace_back([&, q] { reduce(queues[q], counts[q]); });
  }
  for (const std::string_view chunk : split(text.view(), number(argv[2]))) {
    mappers.emplace_back([&queues, chunk] { Mapper(queues).map(chunk); });
  }
  for (std::thread& thread : mappers) thread.join();
  for (Queue& queue : queues) queue.close();
  for (std::thread& thread : reducers) thread.join();
  size_t words = 0, distinct = 0;
  for (const Counts& part : counts) {
    distinct += part.size();
    for (const auto& [word, count] : part) words += count;
  }
  std::printf("%zu words, %zu distinct\n", words, distinct);
}
