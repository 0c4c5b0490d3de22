// SPDX-License-Identifier: Apache-2.0
// Something large to compile: a template with containers, lambdas, variants, streams and (but for
// -DSMALL) regular expressions inside, instantiated INSTANCES times. -DTINY: one function.
#ifdef TINY
#include <utility>

template <typename T>
T middle(T* first, T* last) {
  while (last - first > 1) {
    T pivot = *first, *low = first, *high = last - 1;
    while (low < high) {
      while (low < high && !(*high < pivot)) --high;
      while (low < high && !(pivot < *low)) ++low;
      std::swap(*low, *high);
    }
    *first = pivot;
    (low - first < (last - first) / 2 ? first : last) = low + (low == first);
  }
  return *first;
}

long run(int* a, int* b, long* c, long* d) {
  return middle(a, b) + middle(c, d);
}
#else
#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#ifndef SMALL
#include <deque>
#include <functional>
#include <iostream>
#include <list>
#include <random>
#include <ranges>
#include <regex>
#include <sstream>
#include <thread>
#include <tuple>
#include <variant>
#endif

namespace large {

template <int N>
struct Key {
  int value;
  std::string name;
  auto operator<=>(const Key&) const = default;
};

template <int N>
std::map<Key<N>, std::vector<std::string> > index(const std::vector<std::string>& words) {
  std::map<Key<N>, std::vector<std::string> > found;
  for (const std::string& word : words) {
    found[{static_cast<int>(word.size()) % (N + 2), word.substr(0, 1)}].push_back(word);
  }
  for (auto& [key, list] : found) {
    std::sort(list.begin(), list.end(), [&key](const std::string& a, const std::string& b) {
      return a.size() * (N + 1) + key.value < b.size() * (N + 1) || a < b;
    });
  }
  return found;
}

template <int N>
long count(const std::vector<std::string>& words) {
  std::unordered_map<std::string, std::set<long> > sums;
  for (const auto& [key, list] : index<N>(words)) {
    sums[key.name].insert(
        std::accumulate(list.begin(), list.end(), 0L, [](long sum, const std::string& word) {
          return sum + static_cast<long>(word.size()) * N;
        }));
  }
  long total = 0;
  for (const auto& [name, values] : sums) total += *values.rbegin();
  return total;
}

#ifndef SMALL
template <int N>
using Value =
    std::variant<int, std::string, std::vector<Key<N> >, std::shared_ptr<Key<N + 1000> > >;

template <int N>
std::string text(const std::vector<Value<N> >& values) {
  std::ostringstream out;
  const std::regex word("([a-z]+)([0-9]*)");
  for (const Value<N>& value : values) {
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>)
            out << std::regex_replace(v, word, "$2$1");
          else if constexpr (std::is_same_v<T, int>)
            out << v * N;
          else if constexpr (std::is_same_v<T, std::vector<Key<N> > >)
            for (const auto& key : v | std::views::filter([](auto& k) { return k.value > N; }))
              out << key.name;
          else
            out << v->name;
        },
        value);
  }
  return out.str();
}
#endif

template <int... Ns>
long all(const std::vector<std::string>& words, std::integer_sequence<int, Ns...>) {
  long sum = (count<Ns>(words) + ...);
#ifndef SMALL
  sum += static_cast<long>((text<Ns>({Ns, words.front()}).size() + ...));
#endif
  return sum;
}

}  // namespace large

long run(const std::vector<std::string>& words) {
  return large::all(words, std::make_integer_sequence<int, INSTANCES>());
}
#endif
