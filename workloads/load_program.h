// SPDX-License-Identifier: Apache-2.0
// What our own loads share: tables outside malloc, random numbers, numbers on the command line, and
// the wait in which they are measured. A program defines kProgram, its name in messages.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern const char* const kProgram;

[[noreturn]] inline void out_of_memory() {
  std::fprintf(stderr, "%s: out of memory; ask for less: --peak 256\n", kProgram);
  std::exit(1);
}

[[noreturn]] inline void misused(const char* option) {
  std::fprintf(stderr, "%s: cannot use %s; see --help\n", kProgram, option);
  std::exit(2);
}

// Above 0; else ends the program.
inline size_t number(const char* option, const char* text) {
  char* end = nullptr;
  const unsigned long long value = text ? std::strtoull(text, &end, 10) : 0;
  if (!text || *end || value == 0) misused(option);
  return value;
}

// The place of `text` among `names`; else ends the program.
template <class Choice, size_t kNames>
Choice choice(const char* option, const char* text, const char* const (&names)[kNames]) {
  for (size_t i = 0; i < kNames; ++i) {
    if (text && !std::strcmp(text, names[i])) return static_cast<Choice>(i);
  }
  misused(option);
}

// The words of a command line. --help prints the text and ends the program.
class Words {
 public:
  Words(char** argv, const char* help) : at_(argv), help_(help) {}

  // False: that was all.
  bool next() {
    if (!*++at_) return false;
    option_ = *at_;
    if (!is("--help")) return true;
    std::fputs(help_, stdout);
    std::exit(0);
  }
  bool is(const char* option) const { return !std::strcmp(option_, option); }
  char* word() const { return *at_; }
  // The word after the option; null: there is none.
  const char* value() { return *++at_; }
  size_t number() { return ::number(option_, value()); }
  size_t mebibytes() { return number() << 20; }

 private:
  char** at_;
  const char* help_;
  const char* option_ = nullptr;
};

// An object whose bytes are all written.
template <class T>
T* filled(size_t size) {
  void* memory = std::malloc(size);
  if (!memory) out_of_memory();
  std::memset(memory, 1, size);
  return static_cast<T*>(memory);
}

// Flushes stdout, and stays until standard input ends, to be measured.
inline void wait_to_be_measured() {
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

template <class T>
class Table {
 public:
  explicit Table(size_t capacity) : bytes_((capacity + 1) * sizeof(T)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) out_of_memory();
    madvise(memory, bytes_, MADV_NOHUGEPAGE);
    at_ = static_cast<T*>(memory);
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() { munmap(at_, bytes_); }
  T& operator[](size_t i) { return at_[i]; }

 private:
  size_t bytes_;
  T* at_;
};

class Random {
 public:
  size_t below(size_t n) {
    state_ ^= state_ << 13;  // xorshift64
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % n;
  }

 private:
  uint64_t state_ = 88172645463325252;
};
