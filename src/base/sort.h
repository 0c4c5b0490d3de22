// SPDX-License-Identifier: Apache-2.0
// Sorts rows that can be copied as bytes. One heapsort serves rows of all kinds: std::sort is
// compiled anew for each, about 1 KB every time, and nobody waits for what the library sorts.
//
//   sort_rows(rows, count, [](const Row& a, const Row& b) { return a.key < b.key; });
//
// Memory of its own: one row. Time: n log n in every case, about twice that of std::sort. Rows
// that compare equal come in any order, the same in each run.
#pragma once

#include <cstddef>
#include <type_traits>

namespace llamalloc {

inline constexpr size_t kMostRowBytes = 256;

struct RowOrder {
  size_t row_bytes;
  bool (*before)(const void* context, const void* a, const void* b);
  const void* context;
};

void sort_bytes(void* rows, size_t count, const RowOrder& order);

template <typename Row, typename Before>
void sort_rows(Row* rows, size_t count, Before before) {
  static_assert(std::is_trivially_copyable_v<Row> && sizeof(Row) <= kMostRowBytes);
  const auto compare = [](const void* context, const void* a, const void* b) -> bool {
    return (*static_cast<const Before*>(context))(*static_cast<const Row*>(a),
                                                  *static_cast<const Row*>(b));
  };
  sort_bytes(rows, count, {sizeof(Row), compare, &before});
}

}  // namespace llamalloc
