// SPDX-License-Identifier: Apache-2.0
#include "base/sort.h"

#include <cstring>

namespace llamalloc {
namespace {

struct Heap {
  char* rows;
  const RowOrder& order;

  char* at(size_t i) const { return rows + i * order.row_bytes; }
  bool before(const void* a, const void* b) const { return order.before(order.context, a, b); }
  void copy(void* to, const void* from) const { memcpy(to, from, order.row_bytes); }

  // The hole at `top` sinks to a leaf past the greater children, then rises to where `row` belongs:
  // half the comparisons of a heap that compares with `row` on the way down.
  void sift(size_t top, size_t count, const char* row) const {
    size_t hole = top;
    for (size_t child; (child = 2 * hole + 1) < count; hole = child) {
      if (child + 1 < count && before(at(child), at(child + 1))) ++child;
      copy(at(hole), at(child));
    }
    for (size_t parent; hole > top && before(at(parent = (hole - 1) / 2), row); hole = parent)
      copy(at(hole), at(parent));
    copy(at(hole), row);
  }
};

}  // namespace

void sort_bytes(void* rows, size_t count, const RowOrder& order) {
  const Heap heap = {static_cast<char*>(rows), order};
  alignas(std::max_align_t) char row[kMostRowBytes];
  for (size_t top = count / 2; top-- > 0;) {
    heap.copy(row, heap.at(top));
    heap.sift(top, count, row);
  }
  for (size_t last = count; last-- > 1;) {
    heap.copy(row, heap.at(last));
    heap.copy(heap.at(last), heap.at(0));
    heap.sift(0, last, row);
  }
}

}  // namespace llamalloc
