// SPDX-License-Identifier: Apache-2.0
// The best N of what is added, the best first. It lies on the stack, so N is small.
#pragma once

#include <cstddef>

namespace llamalloc {

// `a < b`: a is better. Of equal ones the earlier comes first.
template <typename T, size_t N>
class BestFew {
 public:
  void add(const T& one) {
    size_t at = count_;
    if (at == N && !(one < of_[--at])) return;
    for (; at > 0 && one < of_[at - 1]; --at) of_[at] = of_[at - 1];
    of_[at] = one;
    if (count_ < N) ++count_;
  }
  bool empty() const { return count_ == 0; }
  const T* begin() const { return of_; }
  const T* end() const { return of_ + count_; }

 private:
  T of_[N];
  size_t count_ = 0;
};

}  // namespace llamalloc
