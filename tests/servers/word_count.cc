// SPDX-License-Identifier: Apache-2.0
// An ordinary C++ program for compilers_test.py: iostream, regex, map, threads, exceptions.
#include <cstdint>
#include <iostream>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

std::map<std::string, int> words;
std::mutex guard;

std::vector<std::string> make_words(int count) {
  std::vector<std::string> made;
  uint64_t state = 1;
  for (int i = 0; i < count; ++i) {
    state = (state * 1103515245 + 12345) % (uint64_t{1} << 31);
    std::ostringstream out;
    out << "w" << (state >> 16) % 5000;
    made.push_back(out.str());
  }
  return made;
}

void count(const std::vector<std::string>& all, size_t first, size_t step) {
  std::map<std::string, int> own;
  for (size_t i = first; i < all.size(); i += step) ++own[all[i]];
  const std::lock_guard<std::mutex> hold(guard);
  for (const auto& [word, n] : own) words[word] += n;
}

int thrown() {
  int caught = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      if (i % 2 == 0) throw std::runtime_error(std::string(i, 'x'));
    } catch (const std::exception& error) {
      caught += std::string(error.what()).size() == static_cast<size_t>(i);
    }
  }
  return caught;
}

}  // namespace

int main() {
  const std::vector<std::string> all = make_words(200000);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) threads.emplace_back(count, std::cref(all), i, 4);
  for (std::thread& thread : threads) thread.join();
  const std::regex ends_in_99("w[0-9]*99");
  for (const auto& [word, n] : words) {
    if (std::regex_match(word, ends_in_99)) std::cout << word << ' ' << n << '\n';
  }
  return thrown() == 500 ? 0 : 1;
}
