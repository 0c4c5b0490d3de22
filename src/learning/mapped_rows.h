// SPDX-License-Identifier: Apache-2.0
// Rows in a mapping of their own. To be given back by hand: nothing here has a destructor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "os/pages.h"

namespace llamalloc {

// Bytes in small pages; null: no memory.
void* map_rows(size_t bytes, PageSource& pages);
void unmap_rows(void* rows, size_t bytes, PageSource& pages);

template <typename Row>
class MappedRows {
 public:
  // Empty, with room for so many; false: no memory, and then there is no room.
  bool make_room(size_t rows, PageSource& pages) {
    give_back();
    if (rows == 0) return true;
    data_ = static_cast<Row*>(map_rows(rows * sizeof(Row), pages));
    if (data_ == nullptr) return false;
    pages_ = &pages;
    room_ = rows;
    return true;
  }
  void give_back() {
    if (data_ != nullptr) unmap_rows(data_, room_ * sizeof(Row), *pages_);
    data_ = nullptr;
    count_ = room_ = 0;
  }

  void append(const Row& row) { data_[count_++] = row; }
  // Keeps the first so many.
  void cut(size_t count) { count_ = count; }
  // Of rows side by side that are the same, the first.
  template <typename Same>
  void drop_repeated(Same&& same) {
    count_ = static_cast<size_t>(std::unique(data_, data_ + count_, same) - data_);
  }
  Row* data() { return data_; }
  size_t size() const { return count_; }
  size_t room() const { return room_; }
  std::span<Row> rows() { return {data_, count_}; }
  std::span<const Row> view() const { return {data_, count_}; }

 private:
  PageSource* pages_ = nullptr;
  Row* data_ = nullptr;
  size_t count_ = 0;
  size_t room_ = 0;
};

}  // namespace llamalloc
